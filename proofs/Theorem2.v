(** Theorems 1, 2 and 4 of Wang, Levine and Feizi (ICML 2022), and the bound of Deep Partition Aggregation.

    In the paper both sides are divided by k d. The sum of the r largest Delta_j is written with a witness t
    (Sums.sum_of_largest): it is r t + sum_j max(0, Delta_j - t) for the best t, and no more for any t. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes Cover.
Import ListNotations.
Open Scope Z_scope.

(** What any r of the partitions Q reach, by the witness t. *)
Definition largest (n : nat) (reach : spread) (w : nat -> Z) (Q : list nat) (r t : Z) : Z :=
  r * t + sum (fun j => positive_part (reached n reach w j - t)) Q.

Lemma largest_bounds n reach w Q r t :
  (forall i, (i < n)%nat -> 0 <= w i) -> 0 <= t -> bounded n reach w Q r (largest n reach w Q r t).
Proof.
  intros W T H D I S.
  pose proof (cover_at_most_sum n reach w H W).
  pose proof (sum_of_largest (reached n reach w) H Q r t D I S T). unfold largest. lia.
Qed.

(** Theorem 4: only partitions in Q can be poisoned, r of them at most. *)
Theorem theorem_4 L K n reach v v' p Q r H (t : Z -> Z) :
  wins L K n v p ->
  (forall i, (i < n)%nat -> 0 <= v i) ->
  (forall c, c < K -> c <> p -> 0 <= c \/ (L = Inferred /\ 0 < r) ->
     0 <= t c /\ largest n reach (weight v p c) Q r (t c) <= lead n v p c) ->
  incl H Q -> size H <= r ->
  poisoned n reach H v v' ->
  wins L K n v' p.
Proof.
  intros W V B I S E.
  assert (rival : forall c, c < K -> c <> p -> 0 <= c \/ (L = Inferred /\ 0 < r) ->
                  bounded n reach (weight v p c) Q r (lead n v p c)).
  { intros c C N A. destruct (B c C N A) as [T M].
    apply bounded_below_bound with (w' := weight v p c) (B' := largest n reach (weight v p c) Q r (t c)); auto.
    - intros. lia.
    - apply largest_bounds; auto. intros. apply weight_bounds. auto. }
  destruct W as [P W].
  apply (prediction_stays n reach L K v v' p Q r H); auto.
  - split; assumption.
  - intros c C N. apply rival; auto; lia.
  - intros IN R c C. apply rival; [lia|lia|right; auto].
Qed.

(** Theorem 2: any partition 0 ... P-1 can be poisoned. *)
Theorem theorem_2 L K n (P : nat) reach v v' p r H (t : Z -> Z) :
  wins L K n v p ->
  (forall i, (i < n)%nat -> 0 <= v i) ->
  (forall c, c < K -> c <> p -> 0 <= c \/ (L = Inferred /\ 0 < r) ->
     0 <= t c /\ largest n reach (weight v p c) (seq 0 P) r (t c) <= lead n v p c) ->
  (forall j, In j H -> (j < P)%nat) -> size H <= r ->
  poisoned n reach H v v' ->
  wins L K n v' p.
Proof.
  intros W V B I. apply theorem_4 with (Q := seq 0 P) (t := t); auto.
  intros j J. apply in_seq. specialize (I j J). lia.
Qed.

(** The bound that counts 2 d votes for every poison, d being the most members that a partition reaches. *)
Theorem dpa_bound L K n (P : nat) reach v v' p r H (d : Z) :
  wins L K n v p ->
  (forall i, (i < n)%nat -> 0 <= v i) ->
  0 <= d -> (forall j, (j < P)%nat -> sum (fun i => one_if (reach j i)) (members n) <= d) ->
  (forall c, c < K -> c <> p -> 0 <= c \/ (L = Inferred /\ 0 < r) -> 2 * d * r <= lead n v p c) ->
  (forall j, In j H -> (j < P)%nat) -> size H <= r ->
  poisoned n reach H v v' ->
  wins L K n v' p.
Proof.
  intros W V D1 D2 B I. apply theorem_2 with (P := P) (t := fun _ => 2 * d); auto.
  intros c C N A. split; [lia|].
  assert (Z : sum (fun j => positive_part (reached n reach (weight v p c) j - 2 * d)) (seq 0 P) = 0).
  { rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
    intros j J. apply in_seq in J.
    assert (reached n reach (weight v p c) j <= 2 * sum (fun i => one_if (reach j i)) (members n)).
    { unfold reached. rewrite <- sum_scaled. apply sum_le. intros i _.
      pose proof (weight_bounds v p c i ltac:(auto)). pose proof (one_if_bounds (reach j i)). nia. }
    specialize (D2 j ltac:(lia)). unfold positive_part. lia. }
  specialize (B c C N A). unfold largest. lia.
Qed.

(** Theorem 1 (Deep Partition Aggregation): partition i reaches member i and no other; 2 r <= m_c is enough. *)
Theorem theorem_1 L K n v v' p r H :
  wins L K n v p ->
  (forall i, (i < n)%nat -> 0 <= v i) ->
  (forall c, c < K -> c <> p -> 0 <= c \/ (L = Inferred /\ 0 < r) -> 2 * r <= lead n v p c) ->
  (forall j, In j H -> (j < n)%nat) -> size H <= r ->
  poisoned n Nat.eqb H v v' ->
  wins L K n v' p.
Proof.
  intros W V B I. apply dpa_bound with (P := n) (d := 1); auto.
  - lia.
  - intros j J. unfold members.
    assert (G : forall k s, sum (fun i => one_if (Nat.eqb j i)) (seq s k) <= 1
                            /\ ((j < s)%nat -> sum (fun i => one_if (Nat.eqb j i)) (seq s k) = 0)).
    { induction k as [|k IH]; intros s; simpl; [lia|]. destruct (IH (S s)) as [A E].
      destruct (Nat.eqb_spec j s); simpl.
      - subst. rewrite E by lia. lia.
      - split; [lia|]. intros. rewrite E by lia. lia. }
    apply G.
Qed.

(** Theorem 4 on a whole test set: [right x] members of the test set are certified for the partitions that one shared
    attack touches, so at least as many stay right. *)
Theorem certified_accuracy {X : Type} L K n reach (v v' : X -> nat -> Z) (p : X -> Z) (certified : X -> bool)
        (Q : list nat) r H (t : X -> Z -> Z) (tests : list X) :
  (forall x, In x tests -> certified x = true ->
     wins L K n (v x) (p x) /\ (forall i, (i < n)%nat -> 0 <= v x i) /\
     (forall c, c < K -> c <> p x -> 0 <= c \/ (L = Inferred /\ 0 < r) ->
        0 <= t x c /\ largest n reach (weight (v x) (p x) c) Q r (t x c) <= lead n (v x) (p x) c)) ->
  incl H Q -> size H <= r ->
  (forall x, In x tests -> poisoned n reach H (v x) (v' x)) ->
  forall still_right : X -> bool,
  (forall x, In x tests -> wins L K n (v' x) (p x) -> still_right x = true) ->
  sum (fun x => one_if (certified x)) tests <= sum (fun x => one_if (still_right x)) tests.
Proof.
  intros C I S E R A. apply sum_le. intros x X'.
  destruct (certified x) eqn:CE; [|pose proof (one_if_bounds (R x)); simpl; lia].
  destruct (C x X' CE) as (W & V & B).
  rewrite (A x X'); [lia|]. apply (theorem_4 L K n reach (v x) (v' x) (p x) Q r H (t x)); auto.
Qed.
