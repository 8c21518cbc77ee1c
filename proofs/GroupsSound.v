(** The grouped bound that is computed (Groups) bounds every cover. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes Cover Theorem2 Tight Lists Spreads Trees Grouped Groups.
Import ListNotations.
Open Scope Z_scope.

Definition triples_of (sp : spread_data) (w : list Z) : list reach3 :=
  triples (sums (prepare sp) w) (sums (prepare sp) (map (fun x => positive_part (1 - x)) w))
          (sums (prepare sp) (map (fun x => positive_part (2 - x)) w)).

Lemma length_triples : forall a b c, length b = length a -> length c = length a -> length (triples a b c) = length a.
Proof.
  induction a as [|x a IH]; intros [|y b] [|z c] B C; simpl in *; try discriminate; try reflexivity. rewrite IH; lia.
Qed.

Lemma nth_triples : forall a b c j, length b = length a -> length c = length a ->
  nth j (triples a b c) (0, 0, 0) = (entry a j, entry b j, entry c j).
Proof.
  unfold entry. induction a as [|x a IH]; intros [|y b] [|z c] j B C; simpl in *; try discriminate.
  - destruct j; reflexivity.
  - destruct j; [reflexivity|]. apply IH; lia.
Qed.

Lemma length_bounds_of_group sp w chosen overlap one pre g total inside found most : forall todo t,
  length (bounds_of_group sp pre chosen w g overlap one total inside found t todo most)
  = Nat.min (length todo) (Z.to_nat (most + 1 - t)).
Proof.
  induction todo as [|x todo IH]; intros t; cbn [bounds_of_group length]; [reflexivity|].
  destruct (Z.ltb_spec most t); cbn [length]; [lia|]. rewrite IH. lia.
Qed.

Section Sound.
  Variables (sp : spread_data) (w : list Z).
  Hypothesis V : valid_spread sp = true.
  Hypothesis E : length w = n_members sp.
  Hypothesis W : forall i, (i < n_members sp)%nat -> 0 <= entry w i <= 2.

  Let n := n_members sp.
  Let reach := reach_of sp.
  Let all := triples_of sp w.

  Lemma W0 : forall i, (i < n_members sp)%nat -> 0 <= entry w i.
  Proof. intros i I. specialize (W i I). lia. Qed.

  Lemma length_all : length all = n_partitions sp.
  Proof.
    unfold all, triples_of. rewrite length_triples; rewrite !length_sums; auto; rewrite map_length; assumption.
  Qed.

  Lemma nth_all j : nth j all (0, 0, 0)
    = (entry (sums (prepare sp) w) j, entry (sums (prepare sp) (map (fun x => positive_part (1 - x)) w)) j,
       entry (sums (prepare sp) (map (fun x => positive_part (2 - x)) w)) j).
  Proof.
    unfold all, triples_of. apply nth_triples; rewrite !length_sums; auto; rewrite map_length; assumption.
  Qed.

  Lemma shortfall_at_most y j : (j < n_partitions sp)%nat ->
    shortfall n reach (entry w) y j <= entry (sums (prepare sp) (map (fun x => positive_part (y - x)) w)) j.
  Proof.
    intros J. unfold shortfall, n, reach.
    eapply Z.le_trans; [|apply reached_at_most_sum; auto].
    - apply Z.eq_le_incl. apply sum_ext. intros i I. apply in_members in I.
      rewrite entry_map by (rewrite E; assumption). reflexivity.
    - rewrite map_length. assumption.
    - intros i I. rewrite entry_map by (rewrite E; assumption). unfold positive_part. lia.
  Qed.

  (** The price that gives partition j its largest penalty. *)
  Definition price (overlap tau t : Z) (j : nat) : Z :=
    let '(_, short1, short2) := nth j all (0, 0, 0) in
    let one := overlap * (t - 1) - (tau - 1) * short1 in
    let two := 2 * (overlap * (t - 1)) - (tau - 1) * short2 in
    if (0 <=? two) && (one <=? two) then 2 else if 0 <=? one then 1 else 0.

  Lemma price_nonnegative overlap tau t j : 0 <= price overlap tau t j.
  Proof.
    unfold price. destruct (nth j all (0, 0, 0)) as [[d s1] s2].
    destruct ((0 <=? 2 * (overlap * (t - 1)) - (tau - 1) * s2)
              && (overlap * (t - 1) - (tau - 1) * s1 <=? 2 * (overlap * (t - 1)) - (tau - 1) * s2)); [lia|].
    destruct (0 <=? overlap * (t - 1) - (tau - 1) * s1); lia.
  Qed.

  Lemma share_at_least scale overlap tau t j : (j < n_partitions sp)%nat -> 0 <= scale -> 1 <= tau ->
    scale * reached n reach (entry w) j - penalty n reach (entry w) overlap tau t (price overlap tau t j) j
    <= share scale overlap tau t (nth j all (0, 0, 0)).
  Proof.
    intros J SC T. unfold penalty, price. rewrite nth_all. unfold share.
    set (s1 := entry (sums (prepare sp) (map (fun x => positive_part (1 - x)) w)) j).
    set (s2 := entry (sums (prepare sp) (map (fun x => positive_part (2 - x)) w)) j).
    set (d := entry (sums (prepare sp) w) j).
    assert (D : reached n reach (entry w) j <= d) by (apply reached_at_most_sum; auto; apply W0).
    assert (S1 : shortfall n reach (entry w) 1 j <= s1) by (apply shortfall_at_most; assumption).
    assert (S2 : shortfall n reach (entry w) 2 j <= s2) by (apply shortfall_at_most; assumption).
    assert (S0 : shortfall n reach (entry w) 0 j = 0).
    { unfold shortfall, reached. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
      intros i I. apply in_members in I. pose proof (W0 i I). unfold positive_part. rewrite Z.max_l by lia. lia. }
    set (o := overlap * (t - 1)) in *.
    assert (D' : scale * reached n reach (entry w) j <= scale * d) by (apply Z.mul_le_mono_nonneg_l; assumption).
    assert (T1 : (tau - 1) * shortfall n reach (entry w) 1 j <= (tau - 1) * s1) by (apply Z.mul_le_mono_nonneg_l; lia).
    assert (T2 : (tau - 1) * shortfall n reach (entry w) 2 j <= (tau - 1) * s2) by (apply Z.mul_le_mono_nonneg_l; lia).
    destruct (Z.leb_spec 0 (2 * o - (tau - 1) * s2)), (Z.leb_spec (o - (tau - 1) * s1) (2 * o - (tau - 1) * s2));
    cbn [andb]; try lia; destruct (Z.leb_spec 0 (o - (tau - 1) * s1)); lia.
  Qed.

  Variables (chosen : list bool).

  Lemma sum_of_t_largest_bounds (f : reach3 -> Z) S : NoDup S -> incl S (inside_of sp chosen) ->
    sum (fun j => f (nth j all (0, 0, 0))) S <= sum_of_t_largest (size S) (map f (select chosen all)).
  Proof.
    intros D I. unfold sum_of_t_largest. set (threshold := Z.max 0 _).
    rewrite sum_of_map, (sum_selected (fun x => positive_part (f x - threshold)) (0, 0, 0)), length_all.
    apply (sum_of_largest (fun j => f (nth j all (0, 0, 0)))); auto; lia.
  Qed.

  Lemma inside_in_range j : In j (inside_of sp chosen) -> (j < n_partitions sp)%nat.
  Proof. intros J. apply in_inside in J. tauto. Qed.

  Lemma most_feeding_positive t : 1 <= t -> (exists j, (j < n_partitions sp)%nat) ->
    1 <= most_feeding sp t \/ (forall j i, reach_of sp j i = false).
  Proof.
    intros T _. destruct sp as [m shifts|m rows]; cbn [most_feeding]; [|left; assumption].
    destruct shifts as [|s shifts]; [right; reflexivity|]. left. unfold size. cbn [length]. lia.
  Qed.

  Variables (overlap : Z) (one : bool).
  Hypothesis OVERLAPS : forall j j', In j (inside_of sp chosen) -> In j' (inside_of sp chosen) -> j <> j' ->
    overlap <= shared n reach j j' /\ (one = true -> shared n reach j j' = 1).

  Lemma nothing_reached S : (forall j i, reach_of sp j i = false) -> cover n reach (entry w) S = 0.
  Proof.
    intros N. unfold cover. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
    intros i _. assert (F : touched reach S i = false).
    { unfold touched. induction S as [|j S IH]; [reflexivity|]. simpl. unfold reach at 1. rewrite N. assumption. }
    rewrite F. cbn [one_if]. lia.
  Qed.

  Lemma sum_of_t_largest_nonnegative t l : 0 <= t -> 0 <= sum_of_t_largest t l.
  Proof.
    intros T. unfold sum_of_t_largest. set (threshold := Z.max 0 _).
    assert (0 <= sum (fun v => positive_part (v - threshold)) l)
      by (apply sum_nonnegative; intros; unfold positive_part; lia).
    assert (0 <= threshold) by (unfold threshold; lia). nia.
  Qed.

  Lemma t3_bounds S : NoDup S -> incl S (inside_of sp chosen) -> 1 <= size S ->
    cover n reach (entry w) S <= t3 sp overlap (size S) (select chosen all).
  Proof.
    intros D I T. unfold t3. set (tau := most_feeding sp (size S)).
    assert (NE : exists j, (j < n_partitions sp)%nat).
    { destruct S as [|j S]; [unfold size in T; simpl in T; lia|]. exists j. apply inside_in_range, I. left. reflexivity. }
    destruct (most_feeding_positive (size S) T NE) as [P|P]; fold tau in P.
    - apply Z.div_le_lower_bound; [lia|].
      eapply Z.le_trans; [|apply (sum_of_t_largest_bounds (share tau overlap tau (size S)) S D I)].
      eapply Z.le_trans; [apply (grouped_cover n reach (entry w) W0 S overlap tau (price overlap tau (size S)))|].
      + assumption.
      + intros j j' J J' N. apply OVERLAPS; auto.
      + intros i IN. apply feeding_at_most; auto. intros j J. apply inside_in_range. auto.
      + intros j. apply price_nonnegative.
      + apply sum_le. intros j J. apply share_at_least; try lia. apply inside_in_range. auto.
    - rewrite nothing_reached by assumption.
      destruct (Z.eq_dec tau 0) as [->|N]; [rewrite Zdiv_0_r; lia|].
      assert (0 <= tau).
      { unfold tau, most_feeding. destruct sp; [|lia]. pose proof (size_nonnegative shifts). lia. }
      apply Z.div_pos; [|lia]. apply sum_of_t_largest_nonnegative. lia.
  Qed.

  Lemma plane_bounds S : one = true -> NoDup S -> incl S (inside_of sp chosen) -> 1 <= size S ->
    cover n reach (entry w) S <= plane sp (size S) (select chosen all).
  Proof.
    intros O D I T. unfold plane. set (tau := most_feeding sp (size S)).
    assert (NE : exists j, (j < n_partitions sp)%nat).
    { destruct S as [|j S]; [unfold size in T; simpl in T; lia|]. exists j. apply inside_in_range, I. left. reflexivity. }
    set (t := size S) in *.
    destruct (most_feeding_positive t T NE) as [P|P]; fold tau in P.
    - assert (A : 2 * cover n reach (entry w) S
                  <= sum_of_t_largest t (map (share 2 1 tau t) (select chosen all)) + 2 * ((t - 1) * (t - 2))).
      { assert (B : 2 * cover n reach (entry w) S
                    <= sum (fun j => 2 * reached n reach (entry w) j
                                     - penalty n reach (entry w) 1 tau t (price 1 tau t j) j) S
                       + 2 * ((t - 1) * (t - 2))).
        { apply (plane_cover n reach (entry w) W S tau (price 1 tau t)); auto.
          - intros j j' J J' N. apply OVERLAPS; auto.
          - intros i IN. apply feeding_at_most; auto. intros j J. apply inside_in_range. auto.
          - intros j. apply price_nonnegative. }
        assert (C : sum (fun j => 2 * reached n reach (entry w) j
                                  - penalty n reach (entry w) 1 tau t (price 1 tau t j) j) S
                    <= sum_of_t_largest t (map (share 2 1 tau t) (select chosen all))).
        { eapply Z.le_trans; [|apply (sum_of_t_largest_bounds (share 2 1 tau t) S D I)].
          apply sum_le. intros j J. apply share_at_least; try lia. apply inside_in_range. auto. }
        lia. }
      assert (cover n reach (entry w) S - (t - 1) * (t - 2)
              <= sum_of_t_largest t (map (share 2 1 tau t) (select chosen all)) / 2)
        by (apply Z.div_le_lower_bound; lia).
      lia.
    - rewrite nothing_reached by assumption.
      pose proof (sum_of_t_largest_nonnegative t (map (share 2 1 tau t) (select chosen all)) ltac:(lia)).
      assert (0 <= sum_of_t_largest t (map (share 2 1 tau t) (select chosen all)) / 2) by (apply Z.div_pos; lia).
      assert (0 <= (t - 1) * (t - 2)) by (destruct (Z.eq_dec t 1) as [->|]; [lia|apply Z.mul_nonneg_nonneg; lia]). lia.
  Qed.

  Variable reached_members : list bool.
  Hypothesis COMPLETE : forall j i, In j (inside_of sp chosen) -> (i < n_members sp)%nat ->
    reach_of sp j i = true -> is_allowed reached_members i = true.

  Lemma total_bounds S : incl S (inside_of sp chosen) ->
    cover n reach (entry w) S <= sum (fun v => v) (select reached_members w).
  Proof.
    intros I. rewrite (sum_selected (fun v => v) 0), E, sum_filtered. unfold cover. apply sum_le.
    intros i IN. apply in_members in IN. pose proof (W0 i IN) as P. fold (entry w i).
    destruct (touched reach S i) eqn:T; cbn [one_if].
    - unfold touched in T. apply existsb_exists in T. destruct T as (j & J & R).
      rewrite (COMPLETE j i (I j J) IN R). lia.
    - destruct (is_allowed reached_members i); lia.
  Qed.

  Lemma lower_bounds g found S : NoDup S -> incl S (inside_of sp chosen) -> forall b,
    cover n reach (entry w) S <= b ->
    cover n reach (entry w) S <= lower sp (prepare sp) chosen w g (size S) found b.
  Proof.
    intros D I. induction found as [|s rest IH]; intros b B; cbn [lower]; [assumption|]. apply IH.
    destruct ((in_group s =? g) && (picks s =? size S) && (bound s <? b)
              && proves sp (prepare sp) chosen (size S) (bound s) w (by_tree s)) eqn:C; [|assumption].
    apply andb_true_iff in C. destruct C as [_ C].
    apply (proves_sound sp chosen (by_tree s) (size S) (bound s) w V E W0 C); auto. lia.
  Qed.

  Lemma entry_bounds_of_group g found most S : NoDup S -> incl S (inside_of sp chosen) ->
    forall todo t, 1 <= t -> t <= size S ->
    (Z.to_nat (size S - t) < length (bounds_of_group sp (prepare sp) chosen w g overlap one
       (sum (fun v => v) (select reached_members w)) (select chosen all) found t todo most))%nat ->
    cover n reach (entry w) S
    <= entry (bounds_of_group sp (prepare sp) chosen w g overlap one
         (sum (fun v => v) (select reached_members w)) (select chosen all) found t todo most) (Z.to_nat (size S - t)).
  Proof.
    intros D I. induction todo as [|x todo IH]; intros t T S' L; cbn [bounds_of_group] in *; [simpl in L; lia|].
    destruct (Z.ltb_spec most t); [simpl in L; lia|].
    destruct (Z.eq_dec (size S) t) as [EQ|NE].
    - replace (Z.to_nat (size S - t)) with 0%nat by lia. unfold entry. cbn [nth]. rewrite <- EQ.
      apply lower_bounds; auto.
      pose proof (total_bounds S I). pose proof (t3_bounds S D I ltac:(lia)).
      assert (O : one = true \/ one = false) by (destruct one; auto). destruct O as [O|O].
      + pose proof (plane_bounds S O D I ltac:(lia)). rewrite O. lia.
      + rewrite O. lia.
    - replace (Z.to_nat (size S - t)) with (Datatypes.S (Z.to_nat (size S - (t + 1)))) in * by lia.
      unfold entry. cbn [nth length] in *. apply IH; lia.
  Qed.
End Sound.

Lemma is_allowed_zip_and : forall a b j, is_allowed (zip_and a b) j = is_allowed a j && is_allowed b j.
Proof.
  unfold is_allowed. induction a as [|x a IH]; intros b j; [destruct j; reflexivity|].
  destruct b as [|y b]; [destruct j; simpl; rewrite andb_false_r; reflexivity|].
  destruct j; [reflexivity|]. cbn [zip_and nth]. apply IH.
Qed.

Lemma length_select_allowed sp {A : Type} chosen (l : list A) :
  length l = n_partitions sp -> length (select chosen l) = length (inside_of sp chosen).
Proof.
  intros L. destruct l as [|d l'] eqn:F.
  - unfold inside_of, allowed_partitions. rewrite <- L. destruct chosen as [|b chosen]; reflexivity.
  - rewrite <- F in *. clear F l'. apply Nat2Z.inj.
    pose proof (sum_selected (fun _ : A => 1) d chosen l) as S. rewrite !sum_constant in S. rewrite L in S.
    unfold size, inside_of, allowed_partitions in *. lia.
Qed.

Lemma filter_length {A : Type} (f : A -> bool) l :
  size (filter f l) + size (filter (fun x => negb (f x)) l) = size l.
Proof. unfold size. induction l as [|x l IH]; simpl; [lia|]. destruct (f x); simpl length; lia. Qed.

Lemma NoDup_filtered {A : Type} (f : A -> bool) l : NoDup l -> NoDup (filter f l).
Proof. apply NoDup_filter. Qed.

Section Sharing.
  Variables (sp : spread_data) (w : list Z) (allowed : list bool) (overlap : Z) (one : bool) (found : list searched)
            (most : Z).
  Hypothesis V : valid_spread sp = true.
  Hypothesis E : length w = n_members sp.
  Hypothesis W : forall i, (i < n_members sp)%nat -> 0 <= entry w i <= 2.
  Hypothesis MOST : 0 <= most.

  Definition good_group (g : group) : Prop :=
    members_in g = members_of sp (partitions_in g)
    /\ group_overlaps sp overlap one (partitions_in g) = true.

  Let sharing := best_sharing sp (prepare sp) allowed w overlap one (triples_of sp w) found most.

  Lemma length_sharing : forall l g, length (sharing g l) = Z.to_nat (most + 1).
  Proof.
    induction l as [|x l IH]; intros g; unfold sharing in *; cbn [best_sharing].
    - rewrite map_length, length_range. reflexivity.
    - rewrite length_combine by discriminate. apply IH.
  Qed.

  Theorem sharing_bounds : forall l g H x,
    (forall y, In y l -> good_group y) ->
    NoDup H -> incl H (allowed_partitions sp allowed) ->
    (forall j, In j H -> exists y, In y l /\ is_allowed (partitions_in y) j = true) ->
    size H <= Z.of_nat x -> Z.of_nat x <= most ->
    cover (n_members sp) (reach_of sp) (entry w) H <= entry (sharing g l) x.
  Proof.
    induction l as [|y l IH]; intros g H x GOOD D I IN S X.
    - destruct H as [|j H]; [|destruct (IN j) as (y & [] & _); left; reflexivity].
      rewrite cover_nil. unfold sharing. cbn [best_sharing]. rewrite entry_map by (rewrite length_range; lia). lia.
    - unfold sharing. cbn [best_sharing]. set (inside := zip_and (partitions_in y) allowed).
      set (bounds := 0 :: bounds_of_group _ _ _ _ _ _ _ _ _ _ _ _ _).
      set (H1 := filter (is_allowed (partitions_in y)) H).
      set (H2 := filter (fun j => negb (is_allowed (partitions_in y) j)) H).
      pose proof (filter_length (is_allowed (partitions_in y)) H) as L. fold H1 H2 in L.
      pose proof (size_nonnegative H1). pose proof (size_nonnegative H2).
      assert (I1 : incl H1 (inside_of sp inside)).
      { intros j J. apply filter_In in J. destruct J as [J A]. apply I in J. apply filter_In in J. destruct J as [J B].
        apply filter_In. split; [assumption|]. unfold inside. rewrite is_allowed_zip_and, A, B. reflexivity. }
      assert (D1 : NoDup H1) by (apply NoDup_filter; assumption).
      assert (inside_group : forall j, In j (inside_of sp inside) -> In j (inside_of sp (partitions_in y))).
      { intros j J. apply in_inside in J. destruct J as [J A]. apply in_inside. split; [assumption|].
        unfold inside in A. rewrite is_allowed_zip_and in A. apply andb_true_iff in A. tauto. }
      assert (C1 : cover (n_members sp) (reach_of sp) (entry w) H1 <= entry bounds (Z.to_nat (size H1))
                   /\ (Z.to_nat (size H1) < length bounds)%nat).
      { destruct (GOOD y ltac:(left; reflexivity)) as [M G].
        destruct (Z.eq_dec (size H1) 0) as [Z0|Z1].
        - assert (N : H1 = []) by (destruct H1; [reflexivity|unfold size in Z0; simpl length in Z0; lia]).
          rewrite Z0, N, cover_nil. unfold bounds. split; [unfold entry; simpl; lia|simpl; lia].
        - assert (small : (length H1 <= length (inside_of sp inside))%nat) by (apply NoDup_incl_length; assumption).
          assert (K : length (select inside (triples_of sp w)) = length (inside_of sp inside)).
          { apply length_select_allowed. apply length_all. assumption. }
          assert (B : (Z.to_nat (size H1 - 1) < length (tl bounds))%nat).
          { unfold bounds. cbn [tl]. rewrite length_bounds_of_group, K. unfold size in *. lia. }
          split.
          + replace (Z.to_nat (size H1)) with (Datatypes.S (Z.to_nat (size H1 - 1))) by lia.
            unfold bounds at 1. unfold entry at 2. cbn [nth].
            apply (entry_bounds_of_group sp w V E W inside overlap one).
            * intros j j' J J' N. apply (group_overlaps_spec sp overlap one (partitions_in y)); auto.
            * intros j i J J' R. rewrite M. apply in_inside in J. destruct J as [J A].
              unfold inside in A. rewrite is_allowed_zip_and in A. apply andb_true_iff in A.
              apply (members_of_complete sp (partitions_in y) j i); tauto.
            * assumption.
            * assumption.
            * lia.
            * lia.
            * exact B.
          + assert (F : length bounds = Datatypes.S (length (tl bounds))) by reflexivity. lia. }
      assert (C2 : cover (n_members sp) (reach_of sp) (entry w) H2 <= entry (sharing (g + 1) l) (x - Z.to_nat (size H1))).
      { apply IH; auto.
        - intros z Z'. apply GOOD. right. assumption.
        - apply NoDup_filter. assumption.
        - intros j J. apply filter_In in J. apply I. tauto.
        - intros j J. apply filter_In in J. destruct J as [J N]. destruct (IN j J) as (z & [<-|Z'] & A).
          + rewrite A in N. discriminate.
          + exists z. auto.
        - lia.
        - lia. }
      pose proof (cover_subadditive (n_members sp) (reach_of sp) (entry w) (is_allowed (partitions_in y)) H
                    ltac:(intros i I'; specialize (W i I'); lia)) as SUB.
      fold H1 H2 in SUB. destruct C1 as [C1 B1].
      pose proof (entry_combine bounds (sharing (g + 1) l) (Z.to_nat (size H1)) (x - Z.to_nat (size H1)) B1) as COMB.
      replace (Z.to_nat (size H1) + (x - Z.to_nat (size H1)))%nat with x in COMB by lia.
      rewrite length_sharing in COMB. specialize (COMB ltac:(lia)). unfold sharing in *. lia.
  Qed.
End Sharing.

Lemma last_entry_spec : forall l, l <> [] -> last_entry l = entry l (length l - 1).
Proof.
  induction l as [|x l IH]; intros N; [contradiction|]. destruct l as [|y l]; [reflexivity|].
  change (last_entry (x :: y :: l)) with (last_entry (y :: l)). rewrite IH by discriminate. unfold entry. simpl.
  rewrite Nat.sub_0_r. reflexivity.
Qed.

(** T3, searches inside groups, and the dynamic programme over groups, all together. *)
Theorem grouped_proves_sound sp allowed m B w found overlap one chosen gr :
  valid_spread sp = true -> length w = n_members sp ->
  (forall i, (i < n_members sp)%nat -> 0 <= entry w i <= 2) ->
  make_grouping sp overlap one chosen = Some gr ->
  grouped_proves sp (prepare sp) gr allowed m B w found = true ->
  bounded (n_members sp) (reach_of sp) (entry w) (allowed_partitions sp allowed) m B.
Proof.
  intros V E W G P H D I S. unfold make_grouping in G.
  destruct ((0 <=? overlap) && forallb (group_overlaps sp overlap one) chosen && all_in_groups sp chosen) eqn:C;
    [|discriminate].
  injection G as <-. apply andb_true_iff in C. destruct C as [C ALL]. apply andb_true_iff in C. destruct C as [_ OV].
  unfold grouped_proves in P. cbn [groups overlap_of exactly_one] in P. apply andb_true_iff in P. destruct P as [M P].
  apply Z.leb_le in M. apply Z.leb_le in P. fold (triples_of sp w) in P.
  eapply Z.le_trans; [|exact P]. clear P.
  rewrite last_entry_spec.
  2: { intros N. assert (L := length_sharing sp w allowed overlap one found m (map (make_group sp) chosen) 0).
       cbn zeta in L. rewrite N in L. simpl in L. lia. }
  rewrite length_sharing.
  apply (sharing_bounds sp w allowed overlap one found m V E W M); auto.
  - intros y Y. apply in_map_iff in Y. destruct Y as (c & <- & IN). split; [reflexivity|].
    rewrite forallb_forall in OV. apply OV. assumption.
  - intros j J. apply I in J. apply filter_In in J. destruct J as [J _]. apply in_seq in J.
    unfold all_in_groups in ALL. rewrite forallb_forall in ALL. specialize (ALL (Z.of_nat j)).
    rewrite in_range in ALL. specialize (ALL ltac:(lia)). apply existsb_exists in ALL.
    destruct ALL as (numbers & IN & ALL). apply in_map_iff in IN. destruct IN as (c & <- & IN).
    exists (make_group sp c). split; [apply in_map; assumption|]. apply existsb_exists in ALL.
    destruct ALL as (k & K & EQ). apply Z.eqb_eq in EQ. subst k. apply in_selected_partitions in K. apply K.
  - lia.
  - lia.
Qed.
