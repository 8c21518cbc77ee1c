(** The grouped bound, computed: bounds for t picks in every group, and the best way to share m picks among groups.

    Groups are read off the spread by whoever writes the witness; the checker looks itself that partitions of one group
    share as many members as is said, and that every partition is in a group. Where a search inside a group proved
    more than T3, the witness holds its tree. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes Cover Theorem2 Tight Lists Spreads Trees Grouped.
Import ListNotations.
Open Scope Z_scope.

(** One group: which partitions are in it, and which members they reach (worked out by [members_of]). *)
Record group := Group { partitions_in : list bool; members_in : list bool }.

(** Any two partitions of a group share at least [overlap] members; exactly one if [exactly_one]. *)
Record grouping := Grouping { groups : list group; overlap_of : Z; exactly_one : bool }.

Fixpoint select {A : Type} (chosen : list bool) (l : list A) : list A :=
  match chosen, l with
  | b :: chosen', x :: l' => if b then x :: select chosen' l' else select chosen' l'
  | _, _ => []
  end.

Fixpoint zip_and (a b : list bool) : list bool :=
  match a, b with
  | x :: a', y :: b' => (x && y) :: zip_and a' b'
  | _, _ => []
  end.

(** * Looking at the spread, once for all samples *)

Fixpoint mark (paths : list path) (t : tree) : tree :=
  match paths with
  | [] => t
  | p :: rest => mark rest (put p 1 t)
  end.

Definition rows_in (sp : spread_data) (chosen : list bool) : list (list Z) :=
  map (row sp) (select chosen (range (Z.of_nat (n_partitions sp)))).

Definition members_of (sp : spread_data) (chosen : list bool) : list bool :=
  let t := mark (map member_path (concat (rows_in sp chosen))) Empty in
  map (fun i => get t (member_path i) =? 1) (range (Z.of_nat (n_members sp))).

Definition make_group (sp : spread_data) (chosen : list bool) : group := Group chosen (members_of sp chosen).

Fixpoint all_different (l : list Z) : bool :=
  match l with
  | [] => true
  | x :: rest => negb (existsb (Z.eqb x) rest) && all_different rest
  end.

(** How many entries of one row are in another. *)
Definition common (a b : list Z) : Z := sum (fun i => one_if (existsb (Z.eqb i) b)) a.

Definition group_overlaps (sp : spread_data) (overlap : Z) (exactly_one : bool) (chosen : list bool) : bool :=
  let numbered := map (fun j => (j, row sp j)) (select chosen (range (Z.of_nat (n_partitions sp)))) in
  forallb (fun a => all_different (snd a)
                    && forallb (fun b => (fst a =? fst b)
                                         || (let c := common (snd a) (snd b) in
                                             (overlap <=? c) && (negb exactly_one || (c =? 1)))) numbered) numbered.

(** Every partition is in a group. *)
Definition all_in_groups (sp : spread_data) (chosen : list (list bool)) : bool :=
  let all := range (Z.of_nat (n_partitions sp)) in
  let numbers := map (fun c => select c all) chosen in
  forallb (fun j => existsb (existsb (Z.eqb j)) numbers) all.

Definition make_grouping (sp : spread_data) (overlap : Z) (exactly_one : bool) (chosen : list (list bool))
  : option grouping :=
  if (0 <=? overlap) && forallb (group_overlaps sp overlap exactly_one) chosen && all_in_groups sp chosen
  then Some (Grouping (map (make_group sp) chosen) overlap exactly_one)
  else None.

(** * The bound for t picks in one group *)

(** The k-th largest entry, or so: any number would do, and nothing about it is proved. *)
Fixpoint kth (fuel : list Z) (k : Z) (l : list Z) : Z :=
  match fuel, l with
  | _ :: fuel', x :: _ =>
      let above := filter (Z.ltb x) l in
      let n_above := sum (fun _ => 1) above in
      let n_same := sum (fun v => one_if (v =? x)) l in
      if k <=? n_above then kth fuel' k above
      else if k <=? n_above + n_same then x
      else kth fuel' (k - n_above - n_same) (filter (fun v => v <? x) l)
  | _, _ => 0
  end.

(** At least the sum of the t largest entries. *)
Definition sum_of_t_largest (t : Z) (l : list Z) : Z :=
  let threshold := Z.max 0 (kth l t l) in
  t * threshold + sum (fun v => positive_part (v - threshold)) l.

(** Delta_j, and what the members of j fall short of 1 and of 2 by. *)
Definition reach3 := (Z * Z * Z)%type.

Definition share (scale overlap tau t : Z) (x : reach3) : Z :=
  let '(delta, short1, short2) := x in
  scale * delta
  - Z.max 0 (Z.max (overlap * (t - 1) - (tau - 1) * short1) (2 * (overlap * (t - 1)) - (tau - 1) * short2)).

(** No member is fed by more partitions than that. *)
Definition most_feeding (sp : spread_data) (t : Z) : Z :=
  match sp with Shifts _ shifts => Z.min (size shifts) t | Table _ _ => t end.

Definition t3 (sp : spread_data) (overlap t : Z) (inside : list reach3) : Z :=
  let tau := most_feeding sp t in sum_of_t_largest t (map (share tau overlap tau t) inside) / tau.

Definition plane (sp : spread_data) (t : Z) (inside : list reach3) : Z :=
  let tau := most_feeding sp t in sum_of_t_largest t (map (share 2 1 tau t) inside) / 2 + (t - 1) * (t - 2).

(** What a search inside a group proved: in group g, t picks cover at most [bound]. *)
Record searched := Searched { in_group : Z; picks : Z; bound : Z; by_tree : proof }.

Fixpoint lower (sp : spread_data) (pre : prepared) (allowed : list bool) (w : list Z) (g t : Z) (found : list searched)
  (b : Z) : Z :=
  match found with
  | [] => b
  | s :: rest =>
      let b' := if (in_group s =? g) && (picks s =? t) && (bound s <? b)
                   && proves sp pre allowed t (bound s) w (by_tree s)
                then bound s else b in
      lower sp pre allowed w g t rest b'
  end.

(** Bounds for 1 + done, ... picks: as many as there are entries in [todo]. *)
Fixpoint bounds_of_group (sp : spread_data) (pre : prepared) (allowed : list bool) (w : list Z) (g overlap : Z)
  (one : bool) (total : Z) (inside : list reach3) (found : list searched) (t : Z) (todo : list reach3) (most : Z)
  : list Z :=
  match todo with
  | [] => []
  | _ :: rest =>
      if most <? t then []
      else
        let b := Z.min total (t3 sp overlap t inside) in
        let b := if one then Z.min b (plane sp t inside) else b in
        lower sp pre allowed w g t found b
        :: bounds_of_group sp pre allowed w g overlap one total inside found (t + 1) rest most
  end.

Fixpoint triples (a b c : list Z) : list reach3 :=
  match a, b, c with
  | x :: a', y :: b', z :: c' => (x, y, z) :: triples a' b' c'
  | _, _, _ => []
  end.

(** * Sharing m picks among groups *)

Fixpoint zip_max (a b : list Z) : list Z :=
  match a, b with
  | x :: a', y :: b' => Z.max x y :: zip_max a' b'
  | _, _ => a
  end.

(** Entry x: the best of best(x - t) + bounds(t). *)
Fixpoint combine_groups (best bounds : list Z) : list Z :=
  match bounds with
  | [] => []
  | b :: rest =>
      match map (Z.add b) best with
      | [] => []
      | x :: xs => x :: zip_max xs (combine_groups best rest)
      end
  end.

Fixpoint best_sharing (sp : spread_data) (pre : prepared) (allowed : list bool) (w : list Z) (overlap : Z) (one : bool)
  (all : list reach3) (found : list searched) (most : Z) (g : Z) (l : list group) : list Z :=
  match l with
  | [] => map (fun _ => 0) (range (most + 1))
  | x :: rest =>
      let inside := zip_and (partitions_in x) allowed in
      let chosen := select inside all in
      let total := sum (fun v => v) (select (members_in x) w) in
      combine_groups (best_sharing sp pre allowed w overlap one all found most (g + 1) rest)
        (0 :: bounds_of_group sp pre inside w g overlap one total chosen found 1 chosen most)
  end.

Fixpoint last_entry (l : list Z) : Z :=
  match l with
  | [] => 0
  | [x] => x
  | _ :: rest => last_entry rest
  end.

(** Whether no m allowed partitions cover more than B, weights being 0, 1 or 2. *)
Definition grouped_proves (sp : spread_data) (pre : prepared) (gr : grouping) (allowed : list bool) (m B : Z) (w : list Z)
  (found : list searched) : bool :=
  let all := triples (sums pre w) (sums pre (map (fun x => positive_part (1 - x)) w))
                     (sums pre (map (fun x => positive_part (2 - x)) w)) in
  (0 <=? m)
  && (last_entry (best_sharing sp pre allowed w (overlap_of gr) (exactly_one gr) all found m 0 (groups gr)) <=? B).

(** * Proofs *)

Lemma length_zip_max : forall a b, length (zip_max a b) = length a.
Proof. induction a as [|x a IH]; intros [|y b]; simpl; auto. Qed.

Lemma entry_zip_max_left : forall a b i, (i < length a)%nat -> entry a i <= entry (zip_max a b) i.
Proof.
  unfold entry. induction a as [|x a IH]; intros b i I; [simpl in I; lia|].
  destruct b as [|y b]; [simpl; lia|]. destruct i; cbn [zip_max nth]; [lia|]. apply IH. simpl in I. lia.
Qed.

Lemma entry_zip_max_right : forall a b i, (i < length a)%nat -> (i < length b)%nat -> entry b i <= entry (zip_max a b) i.
Proof.
  unfold entry. induction a as [|x a IH]; intros b i I J; [simpl in I; lia|].
  destruct b as [|y b]; [simpl in J; lia|]. destruct i; cbn [zip_max nth]; [lia|]. apply IH; simpl in *; lia.
Qed.

Lemma length_combine : forall bounds best, bounds <> [] -> length (combine_groups best bounds) = length best.
Proof.
  intros [|b bounds] best N; [contradiction|]. cbn [combine_groups].
  rewrite <- (map_length (Z.add b) best). destruct (map (Z.add b) best); [reflexivity|].
  cbn [length]. rewrite length_zip_max. reflexivity.
Qed.

Lemma entry_combine : forall bounds best t x,
  (t < length bounds)%nat -> (t + x < length best)%nat ->
  entry best x + entry bounds t <= entry (combine_groups best bounds) (t + x).
Proof.
  induction bounds as [|b bounds IH]; intros best t x T X; [simpl in T; lia|].
  cbn [combine_groups].
  assert (L : length (map (Z.add b) best) = length best) by apply map_length.
  assert (E : forall k, (k < length best)%nat -> entry (map (Z.add b) best) k = b + entry best k)
    by (intros; apply entry_map; assumption).
  destruct (map (Z.add b) best) as [|y ys]; [simpl in L; lia|].
  destruct t as [|t].
  - cbn [Nat.add]. change (entry (b :: bounds) 0) with b. specialize (E x X).
    destruct x as [|x]; [change (entry (y :: ys) 0) with y in E;
      change (entry (y :: zip_max ys (combine_groups best bounds)) 0) with y; lia|].
    change (entry (y :: ys) (S x)) with (entry ys x) in E.
    change (entry (y :: zip_max ys (combine_groups best bounds)) (S x))
      with (entry (zip_max ys (combine_groups best bounds)) x).
    pose proof (entry_zip_max_left ys (combine_groups best bounds) x). simpl in L. lia.
  - cbn [Nat.add]. change (entry (b :: bounds) (S t)) with (entry bounds t).
    change (entry (y :: zip_max ys (combine_groups best bounds)) (S (t + x)))
      with (entry (zip_max ys (combine_groups best bounds)) (t + x)).
    simpl in T. pose proof (IH best t x ltac:(lia) ltac:(lia)).
    assert (bounds <> []) by (destruct bounds; simpl in T; [lia|discriminate]).
    pose proof (length_combine bounds best H0).
    pose proof (entry_zip_max_right ys (combine_groups best bounds) (t + x)). simpl in L. lia.
Qed.

Lemma sum_selected {A : Type} (f : A -> Z) (default : A) : forall chosen l,
  sum f (select chosen l) = sum (fun j => f (nth j l default)) (filter (is_allowed chosen) (seq 0 (length l))).
Proof.
  assert (G : forall chosen l k, sum f (select chosen l)
    = sum (fun j => if is_allowed chosen (j - k) then f (nth (j - k) l default) else 0) (seq k (length l))).
  { induction chosen as [|b chosen IH]; intros l k.
    - simpl. symmetry. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
      intros j _. unfold is_allowed. destruct (j - k)%nat; reflexivity.
    - destruct l as [|x l]; [reflexivity|]. cbn [length seq sum]. rewrite Nat.sub_diag.
      assert (E : sum (fun j => if is_allowed (b :: chosen) (j - k) then f (nth (j - k) (x :: l) default) else 0)
                    (seq (S k) (length l)) = sum f (select chosen l)).
      { rewrite (IH l (S k)). apply sum_ext. intros j J. apply in_seq in J.
        replace (j - k)%nat with (S (j - S k)) by lia. reflexivity. }
      rewrite E. change (is_allowed (b :: chosen) 0) with b. change (nth 0 (x :: l) default) with x.
      cbn [select]. destruct b; cbn [sum]; lia. }
  intros chosen l. rewrite sum_filtered, (G chosen l 0%nat). apply sum_ext. intros j _. rewrite Nat.sub_0_r. reflexivity.
Qed.

Lemma in_select {A : Type} (default : A) : forall chosen l x,
  In x (select chosen l) <-> exists j, (j < length l)%nat /\ is_allowed chosen j = true /\ x = nth j l default.
Proof.
  unfold is_allowed. induction chosen as [|b chosen IH]; intros l x.
  - simpl. split; [contradiction|]. intros (j & _ & C & _). destruct j; discriminate.
  - destruct l as [|y l]; [simpl; split; [contradiction|]; intros (j & J & _); lia|].
    cbn [select]. split.
    + intros I. destruct b.
      * destruct I as [<-|I]; [exists 0%nat; simpl; repeat split; lia|].
        apply IH in I. destruct I as (j & J & C & ->). exists (S j). simpl. repeat split; auto; lia.
      * apply IH in I. destruct I as (j & J & C & ->). exists (S j). simpl. repeat split; auto; lia.
    + intros (j & J & C & ->). destruct j as [|j].
      * cbn [nth] in C. subst b. left. reflexivity.
      * cbn [nth] in *. assert (In (nth j l default) (select chosen l)).
        { apply IH. exists j. simpl in J. repeat split; auto; lia. }
        destruct b; [right|]; assumption.
Qed.

Lemma nth_range n j : (j < Z.to_nat n)%nat -> nth j (range n) 0 = Z.of_nat j.
Proof.
  intros J. unfold range. change 0 with (Z.of_nat 0). rewrite map_nth, seq_nth by assumption. reflexivity.
Qed.

Lemma length_range n : length (range n) = Z.to_nat n.
Proof. unfold range. rewrite map_length, seq_length. reflexivity. Qed.

Lemma in_selected_partitions sp chosen j :
  In (Z.of_nat j) (select chosen (range (Z.of_nat (n_partitions sp)))) <->
  (j < n_partitions sp)%nat /\ is_allowed chosen j = true.
Proof.
  rewrite (in_select 0). split.
  - intros (k & K & A & E). rewrite length_range in K. rewrite nth_range in E by assumption.
    apply Nat2Z.inj in E. subst k. split; [lia|assumption].
  - intros (J & A). exists j. rewrite length_range. split; [lia|]. split; [assumption|]. rewrite nth_range; lia.
Qed.

Lemma path_dec (p q : path) : {p = q} + {p <> q}.
Proof. decide equality. Qed.

Lemma mark_keeps : forall paths t p, get t p = 1 -> get (mark paths t) p = 1.
Proof.
  induction paths as [|q paths IH]; intros t p E; [assumption|]. cbn [mark]. apply IH.
  destruct (path_dec q p) as [<-|N]; [apply get_put_same|]. rewrite get_put_other; assumption.
Qed.

Lemma mark_marks : forall paths t p, In p paths -> get (mark paths t) p = 1.
Proof.
  induction paths as [|q paths IH]; intros t p I; [contradiction|]. cbn [mark].
  destruct I as [<-|I]; [apply mark_keeps, get_put_same|apply IH; assumption].
Qed.

(** A group's partitions reach no member that is not marked. *)
Lemma members_of_complete sp chosen j i :
  valid_spread sp = true -> (j < n_partitions sp)%nat -> (i < n_members sp)%nat ->
  is_allowed chosen j = true -> reach_of sp j i = true -> is_allowed (members_of sp chosen) i = true.
Proof.
  intros V J I A R. unfold is_allowed, members_of.
  set (t := mark _ _).
  rewrite (nth_indep _ false (get t (member_path 0) =? 1)) by (rewrite map_length, length_range; lia).
  rewrite (map_nth (fun i => get t (member_path i) =? 1)), nth_range by lia.
  apply Z.eqb_eq. unfold t. apply mark_marks. apply in_map. apply in_concat. exists (row sp (Z.of_nat j)). split.
  - unfold rows_in. apply in_map. apply in_selected_partitions. auto.
  - unfold reach_of in R. apply existsb_exists in R. destruct R as (x & X & E). apply Z.eqb_eq in E. subst x. assumption.
Qed.

Lemma all_different_spec l : all_different l = true -> NoDup l.
Proof.
  induction l as [|x l IH]; simpl; intros E; constructor.
  - intros I. apply andb_true_iff in E. destruct E as [E _]. apply negb_true_iff in E.
    assert (existsb (Z.eqb x) l = true) by (apply existsb_exists; exists x; split; [assumption|apply Z.eqb_refl]).
    congruence.
  - apply IH. apply andb_true_iff in E. tauto.
Qed.

Lemma one_if_existsb_different x l : NoDup l -> one_if (existsb (Z.eqb x) l) = sum (fun k => one_if (x =? k)) l.
Proof.
  induction 1 as [|a l N D IH]; [reflexivity|]. cbn [existsb sum].
  destruct (Z.eqb_spec x a) as [->|E]; cbn [orb one_if]; [|rewrite <- IH; lia].
  rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
  intros k K. destruct (Z.eqb_spec a k) as [<-|]; [contradiction|reflexivity].
Qed.

(** Members shared by two partitions are the entries that their rows have in common. *)
Lemma shared_is_common sp j j' :
  valid_spread sp = true -> NoDup (row sp (Z.of_nat j)) ->
  shared (n_members sp) (reach_of sp) j j' = common (row sp (Z.of_nat j)) (row sp (Z.of_nat j')).
Proof.
  intros V D. unfold shared, common.
  rewrite (sum_ext _ (fun i => sum (fun k => one_if (reach_of sp j' i) * one_if (Z.of_nat i =? k)) (row sp (Z.of_nat j)))).
  - rewrite sum_swapped. apply sum_ext. intros k K.
    assert (B := valid_row sp (Z.of_nat j) V ltac:(lia) k K).
    rewrite (sum_at_one_place (n_members sp) (fun i => one_if (reach_of sp j' i)) k B).
    unfold reach_of. rewrite Z2Nat.id by lia. reflexivity.
  - intros i _. rewrite sum_scaled, <- one_if_existsb_different by assumption. unfold reach_of at 1. lia.
Qed.

(** The chosen partitions as a list of numbers. *)
Definition inside_of (sp : spread_data) (chosen : list bool) : list nat := allowed_partitions sp chosen.

Lemma in_inside sp chosen j : In j (inside_of sp chosen) <-> (j < n_partitions sp)%nat /\ is_allowed chosen j = true.
Proof. unfold inside_of, allowed_partitions. rewrite filter_In, in_seq. intuition lia. Qed.

Lemma group_overlaps_spec sp overlap one chosen :
  valid_spread sp = true -> group_overlaps sp overlap one chosen = true ->
  forall j j', In j (inside_of sp chosen) -> In j' (inside_of sp chosen) -> j <> j' ->
  overlap <= shared (n_members sp) (reach_of sp) j j'
  /\ (one = true -> shared (n_members sp) (reach_of sp) j j' = 1).
Proof.
  intros V G j j' J J' N. unfold group_overlaps in G. rewrite forallb_forall in G.
  assert (numbered : forall k, In k (inside_of sp chosen) ->
    In (Z.of_nat k, row sp (Z.of_nat k))
      (map (fun j => (j, row sp j)) (select chosen (range (Z.of_nat (n_partitions sp)))))).
  { intros k K. apply in_inside in K. apply (in_map (fun j => (j, row sp j))), in_selected_partitions. assumption. }
  specialize (G _ (numbered j J)). cbn [fst snd] in G. apply andb_true_iff in G. destruct G as [D G].
  apply all_different_spec in D. rewrite forallb_forall in G. specialize (G _ (numbered j' J')). cbn [fst snd] in G.
  rewrite shared_is_common by assumption.
  apply orb_true_iff in G. destruct G as [G|G]; [apply Z.eqb_eq in G; lia|].
  apply andb_true_iff in G. destruct G as [G1 G2]. apply Z.leb_le in G1. split; [assumption|].
  intros ->. cbn [negb orb] in G2. apply Z.eqb_eq in G2. assumption.
Qed.

(** For shifts, no member is fed by more partitions than there are shifts. *)
Lemma feeding_at_most sp S i :
  valid_spread sp = true -> NoDup S -> (forall j, In j S -> (j < n_partitions sp)%nat) -> (i < n_members sp)%nat ->
  feeding (reach_of sp) S i <= most_feeding sp (size S).
Proof.
  intros V D I N.
  assert (few : feeding (reach_of sp) S i <= size S).
  { unfold feeding. rewrite <- (Z.mul_1_r (size S)), <- sum_constant. apply sum_le. intros.
    pose proof (one_if_bounds (reach_of sp x i)). lia. }
  destruct sp as [n shifts|n rows]; cbn [most_feeding]; [|assumption].
  apply Z.min_glb; [|assumption].
  simpl in V. apply andb_true_iff in V. destruct V as [P F]. apply Z.ltb_lt in P. simpl in I, N.
  assert (A : feeding (reach_of (Shifts n shifts)) S i
              <= sum (fun j => one_if (reach_of (Shifts n shifts) j i)) (members (Z.to_nat n))).
  { apply sum_included; auto.
    - intros j J. apply in_members. auto.
    - intros. pose proof (one_if_bounds (reach_of (Shifts n shifts) x i)). lia. }
  assert (B : sum (fun j => one_if (reach_of (Shifts n shifts) j i)) (members (Z.to_nat n))
              <= sum (fun j => sum (fun s => one_if (Z.of_nat i =? (Z.of_nat j + s) mod n)) shifts) (members (Z.to_nat n))).
  { apply sum_le. intros j _. unfold reach_of. cbn [row].
    eapply Z.le_trans; [apply one_if_existsb|]. rewrite sum_of_map. lia. }
  rewrite sum_swapped in B.
  assert (C : sum (fun s => sum (fun j => one_if (Z.of_nat i =? (Z.of_nat j + s) mod n)) (members (Z.to_nat n))) shifts
              = sum (fun _ => 1) shifts).
  { apply sum_ext. intros s _.
    rewrite (sum_ext _ (fun j => 1 * one_if (Z.of_nat j =? (Z.of_nat i - s) mod n))).
    - apply (sum_at_one_place (Z.to_nat n) (fun _ => 1)).
      pose proof (Z.mod_pos_bound (Z.of_nat i - s) n P). lia.
    - intros j J. apply in_members in J. rewrite Z.mul_1_l. f_equal. apply eq_true_iff_eq. rewrite !Z.eqb_eq. split; intros E.
      + rewrite E, Zminus_mod_idemp_l. replace (Z.of_nat j + s - s) with (Z.of_nat j) by lia.
        rewrite Z.mod_small; lia.
      + rewrite E, Zplus_mod_idemp_l. replace (Z.of_nat i - s + s) with (Z.of_nat i) by lia.
        rewrite Z.mod_small; lia. }
  rewrite C, sum_constant in B. lia.
Qed.
