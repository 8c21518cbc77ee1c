(** Spreads as data: shifts, or a table; and the sums of a list of weights over the members of every partition.

    For shifts, the sums are d linear passes over shifted lists. For a table, the weights are put into a binary tree
    once and looked up by paths that are worked out once for all. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes Cover Lists.
Import ListNotations.
Open Scope Z_scope.

(** [Shifts n shifts]: partition j reaches the members (j + s) mod n. [Table n rows]: partition j reaches row j. *)
Inductive spread_data :=
| Shifts (n : Z) (shifts : list Z)
| Table (n : Z) (rows : list (list Z)).

Definition n_members (sp : spread_data) : nat :=
  match sp with Shifts n _ => Z.to_nat n | Table n _ => Z.to_nat n end.

Definition n_partitions (sp : spread_data) : nat :=
  match sp with Shifts n _ => Z.to_nat n | Table _ rows => length rows end.

(** The members that partition j reaches. *)
Definition row (sp : spread_data) (j : Z) : list Z :=
  match sp with
  | Shifts n shifts => map (fun s => (j + s) mod n) shifts
  | Table _ rows => nth (Z.to_nat j) rows []
  end.

Definition reach_of (sp : spread_data) : spread :=
  fun j i => existsb (Z.eqb (Z.of_nat i)) (row sp (Z.of_nat j)).

Definition valid_spread (sp : spread_data) : bool :=
  match sp with
  | Shifts n shifts => (0 <? n) && forallb (fun s => (0 <=? s) && (s <? n)) shifts
  | Table n rows => (0 <? n) && forallb (forallb (fun i => (0 <=? i) && (i <? n))) rows
  end.

(** A binary tree of weights. *)
Inductive path := Here | ToLeft (p : path) | ToRight (p : path).
Inductive tree := Empty | Node (l : tree) (x : Z) (r : tree).

Fixpoint path_of (p : positive) : path :=
  match p with
  | xH => Here
  | xO q => ToLeft (path_of q)
  | xI q => ToRight (path_of q)
  end.

Definition member_path (i : Z) : path := path_of (Z.to_pos (i + 1)).

Fixpoint get (t : tree) (p : path) : Z :=
  match t, p with
  | Empty, _ => 0
  | Node _ x _, Here => x
  | Node l _ _, ToLeft q => get l q
  | Node _ _ r, ToRight q => get r q
  end.

Fixpoint put (p : path) (y : Z) (t : tree) : tree :=
  match p, t with
  | Here, Empty => Node Empty y Empty
  | Here, Node l _ r => Node l y r
  | ToLeft q, Empty => Node (put q y Empty) 0 Empty
  | ToLeft q, Node l x r => Node (put q y l) x r
  | ToRight q, Empty => Node Empty 0 (put q y Empty)
  | ToRight q, Node l x r => Node l x (put q y r)
  end.

Fixpoint fill (paths : list path) (w : list Z) (t : tree) : tree :=
  match paths, w with
  | p :: paths', x :: w' => fill paths' w' (put p x t)
  | _, _ => t
  end.

(** A spread with what is worked out once for all samples. *)
Inductive prepared :=
| PreparedShifts (shifts : list Z)
| PreparedTable (paths : list path) (rows : list (list path)).

Definition prepare (sp : spread_data) : prepared :=
  match sp with
  | Shifts _ shifts => PreparedShifts shifts
  | Table n rows => PreparedTable (map member_path (range n)) (map (map member_path) rows)
  end.

Fixpoint add_shifted (shifts : list Z) (twice total : list Z) : list Z :=
  match shifts with
  | [] => total
  | s :: rest => add_shifted rest twice (zip_add total (drop s twice))
  end.

(** For every partition, the sum of the weights of its members. *)
Definition sums (pre : prepared) (w : list Z) : list Z :=
  match pre with
  | PreparedShifts shifts => add_shifted shifts (w ++ w) (map (fun _ => 0) w)
  | PreparedTable paths rows => let t := fill paths w Empty in map (sum (get t)) rows
  end.

Lemma get_empty p : get Empty p = 0.
Proof. destruct p; reflexivity. Qed.

Lemma get_put_same p y : forall t, get (put p y t) p = y.
Proof. induction p; intros [|l x r]; simpl; auto. Qed.

Lemma get_put_other p y : forall q t, p <> q -> get (put p y t) q = get t q.
Proof.
  induction p; intros q t N; destruct t as [|l x r], q; simpl; try rewrite get_empty; try congruence; try reflexivity;
  try (rewrite IHp by congruence; try rewrite get_empty; reflexivity).
Qed.

Lemma path_of_injective p : forall q, path_of p = path_of q -> p = q.
Proof. induction p; intros [q|q|] E; simpl in E; try discriminate; auto; injection E as E; f_equal; auto. Qed.

Lemma member_path_injective i j : 0 <= i -> 0 <= j -> member_path i = member_path j -> i = j.
Proof. intros I J E. apply path_of_injective in E. lia. Qed.

Lemma get_fill : forall w k m t i,
  length w = m ->
  get (fill (map (fun i => member_path (Z.of_nat i)) (seq k m)) w t) (member_path (Z.of_nat i))
  = if (k <=? i)%nat && (i <? k + m)%nat then entry w (i - k) else get t (member_path (Z.of_nat i)).
Proof.
  induction w as [|x w IH]; intros k m t i E; destruct m as [|m]; simpl in E; try discriminate.
  - simpl. destruct (Nat.leb_spec k i), (Nat.ltb_spec i (k + 0)); simpl; try reflexivity. lia.
  - cbn [seq map fill]. rewrite IH by lia.
    destruct (Nat.leb_spec (S k) i), (Nat.ltb_spec i (S k + m)), (Nat.leb_spec k i), (Nat.ltb_spec i (k + S m));
    simpl; try lia.
    + replace (i - k)%nat with (S (i - S k)) by lia. reflexivity.
    + apply get_put_other. intros F. apply member_path_injective in F; lia.
    + replace i with k by lia. rewrite Nat.sub_diag. apply get_put_same.
    + apply get_put_other. intros F. apply member_path_injective in F; lia.
Qed.

Lemma length_add_shifted : forall shifts twice total, length (add_shifted shifts twice total) = length total.
Proof. induction shifts as [|s l IH]; intros; simpl; [reflexivity|]. rewrite IH, length_zip_add. reflexivity. Qed.

Lemma entry_add_shifted : forall shifts twice total j,
  (j < length total)%nat ->
  entry (add_shifted shifts twice total) j
  = entry total j + sum (fun s => entry twice (j + Z.to_nat s)) shifts.
Proof.
  induction shifts as [|s l IH]; intros twice total j J; cbn [add_shifted sum]; [lia|].
  rewrite IH by (rewrite length_zip_add; assumption). rewrite entry_zip_add by assumption. rewrite entry_drop. lia.
Qed.

Lemma valid_row sp j : valid_spread sp = true -> 0 <= j -> forall i, In i (row sp j) -> 0 <= i < Z.of_nat (n_members sp).
Proof.
  intros V J i I. destruct sp as [n shifts|n rows]; simpl in *; apply andb_true_iff in V; destruct V as [N F];
  apply Z.ltb_lt in N.
  - apply in_map_iff in I. destruct I as (s & <- & _). pose proof (Z.mod_pos_bound (j + s) n N). lia.
  - rewrite forallb_forall in F. destruct (nth_in_or_default (Z.to_nat j) rows []) as [R|R].
    + specialize (F _ R). rewrite forallb_forall in F. specialize (F i I). apply andb_true_iff in F. lia.
    + rewrite R in I. contradiction.
Qed.

Lemma length_sums sp w :
  length w = n_members sp -> length (sums (prepare sp) w) = n_partitions sp.
Proof.
  intros E. destruct sp; simpl in *.
  - rewrite length_add_shifted, map_length. assumption.
  - rewrite !map_length. reflexivity.
Qed.

Lemma entry_sums sp w j :
  valid_spread sp = true -> length w = n_members sp -> (j < n_partitions sp)%nat ->
  entry (sums (prepare sp) w) j = sum (fun i => entry w (Z.to_nat i)) (row sp (Z.of_nat j)).
Proof.
  intros V E J. assert (R := valid_row sp (Z.of_nat j) V ltac:(lia)).
  destruct sp as [n shifts|n rows]; simpl in *; apply andb_true_iff in V; destruct V as [N F]; apply Z.ltb_lt in N.
  - rewrite entry_add_shifted by (rewrite map_length, E; assumption). rewrite entry_map by (rewrite E; assumption).
    rewrite sum_of_map. cbn [Z.add]. apply sum_ext. intros s S.
    rewrite forallb_forall in F. specialize (F s S). apply andb_true_iff in F. destruct F as [F1 F2].
    apply Z.leb_le in F1. apply Z.ltb_lt in F2. unfold entry.
    assert (D : Z.of_nat j + s < n \/ n <= Z.of_nat j + s) by lia. destruct D as [D|D].
    + rewrite app_nth1 by lia. rewrite Z.mod_small by lia. f_equal. lia.
    + rewrite app_nth2 by lia. replace ((Z.of_nat j + s) mod n) with (Z.of_nat j + s - n).
      * f_equal. lia.
      * symmetry. rewrite <- (Z_mod_plus_full _ (-1) n). rewrite Z.mod_small; lia.
  - unfold entry at 1. rewrite (nth_indep _ 0 (sum (get (fill (map member_path (range n)) w Empty)) [])).
    2: { rewrite !map_length. assumption. }
    rewrite map_nth. rewrite (nth_indep _ [] (map member_path [])) by (rewrite map_length; assumption).
    rewrite map_nth, Nat2Z.id, sum_of_map. apply sum_ext. intros i I.
    rewrite Nat2Z.id in R. specialize (R i I).
    replace (map member_path (range n)) with (map (fun i => member_path (Z.of_nat i)) (seq 0 (Z.to_nat n))).
    2: { unfold range. rewrite map_map. reflexivity. }
    replace (member_path i) with (member_path (Z.of_nat (Z.to_nat i))) by (f_equal; lia).
    rewrite get_fill by lia.
    destruct (Nat.leb_spec 0 (Z.to_nat i)), (Nat.ltb_spec (Z.to_nat i) (0 + Z.to_nat n)); simpl; try lia.
    rewrite Nat.sub_0_r. reflexivity.
Qed.

Lemma sum_at_one_place w (f : nat -> Z) (i : Z) :
  0 <= i < Z.of_nat w -> sum (fun k => f k * one_if (Z.of_nat k =? i)) (members w) = f (Z.to_nat i).
Proof.
  intros I. unfold members.
  assert (G : forall m k, sum (fun k => f k * one_if (Z.of_nat k =? i)) (seq k m)
                          = if (Z.of_nat k <=? i) && (i <? Z.of_nat (k + m)) then f (Z.to_nat i) else 0).
  { induction m as [|m IH]; intros k; cbn [seq sum].
    - destruct (Z.leb_spec (Z.of_nat k) i), (Z.ltb_spec i (Z.of_nat (k + 0))); simpl; lia.
    - rewrite IH.
      destruct (Z.eqb_spec (Z.of_nat k) i) as [E|E]; cbn [one_if];
      destruct (Z.leb_spec (Z.of_nat (S k)) i), (Z.ltb_spec i (Z.of_nat (S k + m))),
        (Z.leb_spec (Z.of_nat k) i), (Z.ltb_spec i (Z.of_nat (k + S m))); cbn [andb]; try lia.
      all: replace k with (Z.to_nat i) by lia; lia. }
  rewrite G. destruct (Z.leb_spec (Z.of_nat 0) i), (Z.ltb_spec i (Z.of_nat (0 + w))); simpl; lia.
Qed.

(** What a partition reaches is at most the sum that is computed. *)
Lemma reached_at_most_sum sp w j :
  valid_spread sp = true -> length w = n_members sp -> (j < n_partitions sp)%nat ->
  (forall i, (i < n_members sp)%nat -> 0 <= entry w i) ->
  reached (n_members sp) (reach_of sp) (entry w) j <= entry (sums (prepare sp) w) j.
Proof.
  intros V E J W. rewrite entry_sums by assumption. unfold reached, reach_of.
  assert (A : sum (fun i => entry w i * one_if (existsb (Z.eqb (Z.of_nat i)) (row sp (Z.of_nat j)))) (members (n_members sp))
              <= sum (fun i => sum (fun k => entry w i * one_if (Z.of_nat i =? k)) (row sp (Z.of_nat j)))
                   (members (n_members sp))).
  { apply sum_le. intros i I. apply in_members in I. rewrite sum_scaled. apply Z.mul_le_mono_nonneg_l; [auto|].
    apply one_if_existsb. }
  rewrite sum_swapped in A.
  assert (B : sum (fun k => sum (fun i => entry w i * one_if (Z.of_nat i =? k)) (members (n_members sp)))
                (row sp (Z.of_nat j)) = sum (fun i => entry w (Z.to_nat i)) (row sp (Z.of_nat j))).
  { apply sum_ext. intros k K. apply sum_at_one_place. apply (valid_row sp (Z.of_nat j)); auto. lia. }
  lia.
Qed.
