(** Partitions reach members; an attacker who poisons some partitions changes only the members that they reach.

    The spread is any relation [reach j i] between partitions and members: balanced or not, of any degree. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes.
Import ListNotations.
Open Scope Z_scope.

Definition spread := nat -> nat -> bool.

(** Member i is reached by one of the partitions H. *)
Definition touched (reach : spread) (H : list nat) (i : nat) : bool := existsb (fun j => reach j i) H.

(** cov(H): the weight of all members that the partitions H reach, each counted once. *)
Definition cover (n : nat) (reach : spread) (w : nat -> Z) (H : list nat) : Z :=
  sum (fun i => w i * one_if (touched reach H i)) (members n).

(** Delta_j for the weights of Theorem 2: the weight that partition j reaches by itself. *)
Definition reached (n : nat) (reach : spread) (w : nat -> Z) (j : nat) : Z :=
  sum (fun i => w i * one_if (reach j i)) (members n).

(** No m of the partitions Q cover more than B. *)
Definition bounded (n : nat) (reach : spread) (w : nat -> Z) (Q : list nat) (m B : Z) : Prop :=
  forall H, NoDup H -> incl H Q -> size H <= m -> cover n reach w H <= B.

(** The votes v' can come from v by poisoning the partitions H; so can rankings, or whatever members say. *)
Definition poisoned {answer : Type} (n : nat) (reach : spread) (H : list nat) (v v' : nat -> answer) : Prop :=
  forall i, (i < n)%nat -> touched reach H i = false -> v' i = v i.

Section Cover.
  Variables (n : nat) (reach : spread).

  Lemma cover_nil w : cover n reach w [] = 0.
  Proof.
    unfold cover. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|]. intros. simpl. lia.
  Qed.

  Lemma cover_single w j : cover n reach w [j] = reached n reach w j.
  Proof. apply sum_ext. intros. unfold touched. simpl. rewrite orb_false_r. reflexivity. Qed.

  Lemma cover_ext w w' H : (forall i, (i < n)%nat -> w i = w' i) -> cover n reach w H = cover n reach w' H.
  Proof. intros E. apply sum_ext. intros i I. apply in_members in I. rewrite E; auto. Qed.

  Lemma cover_monotone w w' H : (forall i, (i < n)%nat -> w i <= w' i) -> cover n reach w H <= cover n reach w' H.
  Proof.
    intros L. apply sum_le. intros i I. apply in_members in I. specialize (L i I).
    pose proof (one_if_bounds (touched reach H i)). nia.
  Qed.

  (** Union bound: Theorem 2 counts a member as often as it is reached. *)
  Lemma cover_at_most_sum w H :
    (forall i, (i < n)%nat -> 0 <= w i) -> cover n reach w H <= sum (reached n reach w) H.
  Proof.
    intros P. unfold reached. rewrite sum_swapped. apply sum_le. intros i I. apply in_members in I.
    rewrite sum_scaled. apply Z.mul_le_mono_nonneg_l; [auto|]. apply one_if_existsb.
  Qed.

  (** No partition reaches more than d members, so r of them reach r d at most: what these weigh, by a witness t. *)
  Lemma bounded_by_members w Q r d t :
    0 <= d -> (forall j, In j Q -> reached n reach (fun _ => 1) j <= d) -> 0 <= t ->
    bounded n reach w Q r (r * d * t + sum (fun i => positive_part (w i - t)) (members n)).
  Proof.
    intros D R T H N I S. unfold cover.
    assert (A : sum (fun i => w i * one_if (touched reach H i)) (members n)
                <= sum (fun i => t * one_if (touched reach H i) + positive_part (w i - t)) (members n)).
    { apply sum_le. intros i _. unfold positive_part. destruct (touched reach H i); cbn [one_if]; lia. }
    rewrite sum_plus, sum_scaled in A.
    pose proof (cover_at_most_sum (fun _ => 1) H ltac:(intros; lia)) as C. unfold cover in C.
    rewrite (sum_ext (fun i => 1 * one_if (touched reach H i)) (fun i => one_if (touched reach H i))) in C
      by (intros; lia).
    assert (B : sum (reached n reach (fun _ => 1)) H <= sum (fun _ => d) H) by (apply sum_le; auto).
    rewrite sum_constant in B.
    assert (size H * d <= r * d) by (apply Z.mul_le_mono_nonneg_r; assumption).
    set (touches := sum (fun i => one_if (touched reach H i)) (members n)) in *.
    assert (t * touches <= t * (r * d)) by (apply Z.mul_le_mono_nonneg_l; lia). lia.
  Qed.

  Lemma touched_same H H' i : incl H H' -> incl H' H -> touched reach H i = touched reach H' i.
  Proof.
    intros A B. apply eq_true_iff_eq. unfold touched. rewrite !existsb_exists.
    split; intros (j & J & R); exists j; auto.
  Qed.

  (** It does not matter how often a partition is poisoned. *)
  Lemma bounded_for_lists w Q m B H :
    bounded n reach w Q m B -> incl H Q -> size H <= m -> cover n reach w H <= B.
  Proof.
    intros F I S.
    assert (A : incl (nodup Nat.eq_dec H) H) by (intros x X; apply nodup_In in X; assumption).
    assert (C : incl H (nodup Nat.eq_dec H)) by (intros x X; apply nodup_In; assumption).
    replace (cover n reach w H) with (cover n reach w (nodup Nat.eq_dec H)).
    - apply F; [apply NoDup_nodup|intros x X; auto|].
      assert (length (nodup Nat.eq_dec H) <= length H)%nat
        by (apply NoDup_incl_length; [apply NoDup_nodup|assumption]).
      unfold size in *. lia.
    - apply sum_ext. intros i _. rewrite (touched_same _ H); auto.
  Qed.

  Lemma bounded_below_bound w w' Q m B B' :
    (forall i, (i < n)%nat -> w i <= w' i) -> B' <= B -> bounded n reach w' Q m B' -> bounded n reach w Q m B.
  Proof.
    intros L E F H D I S. pose proof (F H D I S). pose proof (cover_monotone w w' H L). lia.
  Qed.

  (** What all certificates come down to. Against every known rival, and against an invented one if there can be one
      and anything is poisoned at all, the cover stays within the lead: then the prediction stays. *)
  Theorem prediction_stays L K v v' p Q r H :
    wins L K n v p ->
    (forall i, (i < n)%nat -> 0 <= v i) ->
    (forall c, 0 <= c < K -> c <> p -> bounded n reach (weight v p c) Q r (lead n v p c)) ->
    (L = Inferred -> 0 < r -> forall c, c < 0 -> bounded n reach (weight v p c) Q r (lead n v p c)) ->
    incl H Q -> size H <= r ->
    poisoned n reach H v v' ->
    wins L K n v' p.
  Proof.
    intros [P W] V KNOWN NEW I S E. split; [assumption|]. intros c C N.
    assert (step : bounded n reach (weight v p c) Q r (lead n v p c) -> 0 <= lead n v' p c).
    { intros F. pose proof (bounded_for_lists _ _ _ _ H F I S) as G.
      assert (p <> c) as N' by auto.
      pose proof (lead_loses_at_most_the_weight n v v' p c (touched reach H) N' E). unfold cover in G. lia. }
    destruct (Z_lt_le_dec c 0) as [A|A].
    - destruct L; simpl in C; [lia|].
      destruct (Z_lt_le_dec 0 r) as [R|R]; [apply step, NEW; auto|].
      assert (H = []) by (destruct H; [reflexivity|unfold size in S; simpl length in S; lia]). subst H.
      assert (U : count n v' c = 0).
      { rewrite (count_unchanged n v v' c) by (intros i I'; apply E; [assumption|reflexivity]).
        unfold count. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
        intros i I'. apply in_members in I'. specialize (V i I').
        destruct (Z.eqb_spec (v i) c); simpl; lia. }
      lia.
    - apply step, KNOWN; [|assumption]. destruct L; simpl in C; lia.
  Qed.
End Cover.
