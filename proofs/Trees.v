(** Proof trees: what the checker is handed for one rival, and how it checks them.

    A leaf is a bound: Theorem 2's with a threshold t, or the dual bound with u on a grid of 1/256. A branch splits the
    attacks into those that poison partition j and those that do not. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes Cover Theorem2 Tight Lists Spreads.
Import ListNotations.
Open Scope Z_scope.

Inductive proof :=
| Largest (t : Z)
| Dual (t : Z) (u : list Z)
| Branch (j : Z) (with_j without_j : proof).

Definition grid : Z := 256.

(** Every u_i lies between 0 and 256 w_i; then the sum of 256 w_i - u_i. *)
Fixpoint slack (w u : list Z) : option Z :=
  match w, u with
  | [], [] => Some 0
  | x :: w', y :: u' =>
      if (0 <=? y) && (y <=? grid * x)
      then match slack w' u' with Some rest => Some (grid * x - y + rest) | None => None end
      else None
  | _, _ => None
  end.

Fixpoint forbid (j : Z) (allowed : list bool) : list bool :=
  match allowed with
  | [] => []
  | a :: rest => if j <=? 0 then false :: rest else a :: forbid (j - 1) rest
  end.

(** Weights once the members of a partition are covered; k is the number of the first member of the list. *)
Fixpoint uncovered (reached_members : list Z) (k : Z) (w : list Z) : list Z :=
  match w with
  | [] => []
  | x :: rest => (if existsb (Z.eqb k) reached_members then 0 else x) :: uncovered reached_members (k + 1) rest
  end.

(** Whether the tree shows that no m allowed partitions cover more than B of the weights w. *)
Fixpoint proves (sp : spread_data) (pre : prepared) (allowed : list bool) (m B : Z) (w : list Z) (tree : proof) : bool :=
  match tree with
  | Largest t => (0 <=? t) && (m * t + excess t (sums pre w) allowed <=? B)
  | Dual t u =>
      match slack w u with
      | Some s => (0 <=? t) && (s + (m * t + excess t (sums pre u) allowed) <? grid * (B + 1))
      | None => false
      end
  | Branch j with_j without_j =>
      let allowed' := forbid j allowed in
      let w' := uncovered (row sp j) 0 w in
      (0 <=? j) && proves sp pre allowed' m B w without_j
      && proves sp pre allowed' (m - 1) (B - (sum (fun x => x) w - sum (fun x => x) w')) w' with_j
  end.

(** The partitions that may be poisoned. *)
Definition allowed_partitions (sp : spread_data) (allowed : list bool) : list nat :=
  filter (is_allowed allowed) (seq 0 (n_partitions sp)).

Lemma slack_spec : forall w u s, slack w u = Some s ->
  length u = length w /\ (forall i, (i < length w)%nat -> 0 <= entry u i <= grid * entry w i)
  /\ s = sum (fun i => grid * entry w i - entry u i) (members (length w)).
Proof.
  unfold members.
  assert (G : forall w u s k, slack w u = Some s ->
    length u = length w /\ (forall i, (i < length w)%nat -> 0 <= entry u i <= grid * entry w i)
    /\ s = sum (fun i => grid * entry w (i - k) - entry u (i - k)) (seq k (length w))).
  { induction w as [|x w IH]; intros [|y u] s k E; cbn [slack] in E; try discriminate.
    - injection E as <-. repeat split; simpl in *; lia.
    - destruct (Z.leb_spec 0 y), (Z.leb_spec y (grid * x)); cbn [andb] in E; try discriminate.
      destruct (slack w u) as [rest|] eqn:R; [|discriminate]. injection E as <-.
      destruct (IH u rest (S k) R) as (L & B & S'). repeat split.
      + simpl. lia.
      + destruct i; [assumption|]. simpl in H1. apply B. lia.
      + destruct i; [assumption|]. simpl in H1. apply B. lia.
      + cbn [length seq sum]. rewrite Nat.sub_diag.
        change (entry (x :: w) 0) with x. change (entry (y :: u) 0) with y. rewrite S'. f_equal.
        apply sum_ext. intros i I. apply in_seq in I. replace (i - k)%nat with (S (i - S k)) by lia. reflexivity. }
  intros w u s E. destruct (G w u s 0%nat E) as (L & B & S'). repeat split; try apply B; auto.
  rewrite S'. apply sum_ext. intros. rewrite Nat.sub_0_r. reflexivity.
Qed.

Lemma is_allowed_forbid : forall allowed j x, 0 <= j ->
  is_allowed allowed x = true -> x <> Z.to_nat j -> is_allowed (forbid j allowed) x = true.
Proof.
  unfold is_allowed. induction allowed as [|a l IH]; intros j x J A N; [destruct x; discriminate|].
  cbn [forbid]. destruct (Z.leb_spec j 0).
  - destruct x; [replace (Z.to_nat j) with 0%nat in N by lia; contradiction|assumption].
  - destruct x; [assumption|]. cbn [nth] in *. apply IH; [lia|assumption|]. lia.
Qed.

Lemma length_uncovered rows : forall w k, length (uncovered rows k w) = length w.
Proof. induction w as [|x w IH]; intros k; simpl; auto. Qed.

Lemma entry_uncovered rows : forall w k i, (i < length w)%nat ->
  entry (uncovered rows k w) i = if existsb (Z.eqb (k + Z.of_nat i)) rows then 0 else entry w i.
Proof.
  unfold entry. induction w as [|x w IH]; intros k i I; [simpl in I; lia|].
  destruct i; cbn [uncovered nth].
  - rewrite Z.add_0_r. reflexivity.
  - rewrite IH by (simpl in I; lia). replace (k + 1 + Z.of_nat i) with (k + Z.of_nat (S i)) by lia. reflexivity.
Qed.

Lemma largest_of_list sp allowed w m t :
  valid_spread sp = true -> length w = n_members sp ->
  (forall i, (i < n_members sp)%nat -> 0 <= entry w i) -> 0 <= t ->
  largest (n_members sp) (reach_of sp) (entry w) (allowed_partitions sp allowed) m t
  <= m * t + excess t (sums (prepare sp) w) allowed.
Proof.
  intros V E W T. unfold largest. rewrite excess_spec, length_sums by assumption.
  apply Z.add_le_mono_l. apply sum_le. intros j J. apply filter_In in J. destruct J as [J _]. apply in_seq in J.
  pose proof (reached_at_most_sum sp w j V E ltac:(lia) W). unfold positive_part. lia.
Qed.

Theorem proves_sound sp allowed tree : forall m B w,
  valid_spread sp = true ->
  length w = n_members sp -> (forall i, (i < n_members sp)%nat -> 0 <= entry w i) ->
  proves sp (prepare sp) allowed m B w tree = true ->
  bounded (n_members sp) (reach_of sp) (entry w) (allowed_partitions sp allowed) m B.
Proof.
  revert allowed. induction tree as [t|t u|j with_j IHwith without_j IHwithout];
    intros allowed m B w V E W C; cbn [proves] in C.
  - apply andb_true_iff in C. destruct C as [T C]. apply Z.leb_le in T. apply Z.leb_le in C.
    pose proof (largest_of_list sp allowed w m t V E W T).
    apply bounded_below_bound with (w' := entry w) (B' := largest (n_members sp) (reach_of sp) (entry w)
      (allowed_partitions sp allowed) m t); [intros; lia|lia|]. apply largest_bounds; auto.
  - destruct (slack w u) as [s|] eqn:S; [|discriminate].
    apply andb_true_iff in C. destruct C as [T C]. apply Z.leb_le in T. apply Z.ltb_lt in C.
    destruct (slack_spec w u s S) as (L & U & ->). rewrite E in *.
    assert (W' : forall i, (i < n_members sp)%nat -> 0 <= entry u i) by (intros i I; specialize (U i I); lia).
    pose proof (largest_of_list sp allowed u m t V L W' T).
    apply dual_bound with (G := grid) (u := entry u) (t := t); auto; unfold grid in *; lia.
  - apply andb_true_iff in C. destruct C as [C Cwith]. apply andb_true_iff in C. destruct C as [J C].
    apply Z.leb_le in J.
    assert (reachj : forall i, reach_of sp (Z.to_nat j) i = existsb (Z.eqb (Z.of_nat i)) (row sp j))
      by (intros i; unfold reach_of; rewrite Z2Nat.id by assumption; reflexivity).
    set (w' := uncovered (row sp j) 0 w) in *.
    assert (E' : length w' = n_members sp) by (unfold w'; rewrite length_uncovered; assumption).
    assert (same : forall i, (i < n_members sp)%nat -> entry w' i = without (reach_of sp) (Z.to_nat j) (entry w) i).
    { intros i I. unfold w'. rewrite entry_uncovered by (rewrite E; assumption).
      unfold without. rewrite reachj. reflexivity. }
    assert (gain : sum (fun x => x) w - sum (fun x => x) w'
                   = reached (n_members sp) (reach_of sp) (entry w) (Z.to_nat j)).
    { rewrite <- (sum_of_entries (fun x => x) w), <- (sum_of_entries (fun x => x) w'), E, E', <- sum_minus.
      apply sum_ext. intros i I. apply in_members in I. rewrite same by assumption.
      unfold without. destruct (reach_of sp (Z.to_nat j) i); cbn [one_if]; lia. }
    apply branch with (j := Z.to_nat j) (Q' := allowed_partitions sp (forbid j allowed)).
    + intros x X N. apply filter_In in X. destruct X as [X A]. apply filter_In. split; [assumption|].
      apply is_allowed_forbid; auto.
    + apply (IHwithout (forbid j allowed) m B w V E W C).
    + rewrite <- gain.
      apply bounded_below_bound with (w' := entry w') (B' := B - (sum (fun x => x) w - sum (fun x => x) w')); [|lia|].
      * intros i I. rewrite same by assumption. lia.
      * apply (IHwith (forbid j allowed) (m - 1) _ w' V E'); [|assumption].
        intros i I. rewrite same by assumption. unfold without. destruct (reach_of sp (Z.to_nat j) i); [lia|auto].
Qed.
