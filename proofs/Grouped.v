(** The grouped bound (T3): partitions of one group share members by design, so few picks in a group overlap.

    With t picks S in a group whose partitions share at least lambda members pairwise, and t_i of them feeding member i,
    a_i = t_i - 1, tau = min(s, t) where no member is fed by more than s partitions of the group:

      tau cov(S) <= sum_{j in S} (tau Delta_j - pen_j),

    because tau <= t_i (tau - a_i) for 1 <= t_i <= tau. The penalty pen_j is a lower bound of sum w_i a_i over the members
    of j, given sum a_i >= lambda (t - 1) and 0 <= a_i <= tau - 1. Filling the cheapest members first is a linear
    programme; here it appears as its dual: for any price y >= 0, w_i a_i >= y a_i - max(0, y - w_i) (tau - 1). *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes Cover Theorem2 Tight.
Import ListNotations.
Open Scope Z_scope.

Section Grouped.
  Variables (n : nat) (reach : spread) (w : nat -> Z).
  Hypothesis W : forall i, (i < n)%nat -> 0 <= w i.

  (** How many members two partitions share. *)
  Definition shared (j j' : nat) : Z := sum (fun i => one_if (reach j i) * one_if (reach j' i)) (members n).

  (** How many of the picks S feed member i. *)
  Definition feeding (S : list nat) (i : nat) : Z := sum (fun j => one_if (reach j i)) S.

  (** What the members of j fall short of the price y by. *)
  Definition shortfall (y : Z) (j : nat) : Z := reached n reach (fun i => positive_part (y - w i)) j.

  Definition penalty (lambda tau t y : Z) (j : nat) : Z := y * (lambda * (t - 1)) - (tau - 1) * shortfall y j.

  Variables (S : list nat) (lambda tau : Z) (y : nat -> Z).
  Hypothesis DIFFERENT : NoDup S.
  Hypothesis SHARED : forall j j', In j S -> In j' S -> j <> j' -> lambda <= shared j j'.
  Hypothesis FED : forall i, (i < n)%nat -> feeding S i <= tau.
  Hypothesis Y : forall j, 0 <= y j.

  Lemma feeding_nonnegative i : 0 <= feeding S i.
  Proof. apply sum_nonnegative. intros. pose proof (one_if_bounds (reach x i)). lia. Qed.

  Lemma feeding_positive i j : In j S -> reach j i = true -> 1 <= feeding S i.
  Proof.
    intros J R. unfold feeding.
    pose proof (sum_member (fun j => one_if (reach j i)) S j) as M. simpl in M. rewrite R in M. apply M; auto.
    intros. pose proof (one_if_bounds (reach y0 i)). lia.
  Qed.

  (** Step 1: tau cov(S) <= sum over picks and members of tau w_i - w_i a_i. *)
  Lemma shares : tau * cover n reach w S
    <= sum (fun j => sum (fun i => one_if (reach j i) * (w i * (tau - (feeding S i - 1)))) (members n)) S.
  Proof.
    rewrite sum_swapped. unfold cover. rewrite <- sum_scaled. apply sum_le. intros i I. apply in_members in I.
    rewrite (sum_ext _ (fun j => (w i * (tau - (feeding S i - 1))) * one_if (reach j i))) by (intros; lia).
    rewrite sum_scaled. change (sum (fun j => one_if (reach j i)) S) with (feeding S i).
    pose proof (W i I). pose proof (FED i I). pose proof (feeding_nonnegative i).
    destruct (touched reach S i) eqn:T.
    - assert (1 <= feeding S i).
      { unfold touched in T. apply existsb_exists in T. destruct T as (j & J & R). apply (feeding_positive i j); auto. }
      change (one_if true) with 1.
      assert (0 <= (feeding S i - 1) * (tau - feeding S i)) by nia.
      assert (w i * tau <= w i * (feeding S i * (tau - feeding S i + 1))) by (apply Z.mul_le_mono_nonneg_l; nia).
      nia.
    - change (one_if false) with 0.
      assert (0 <= w i * (tau - (feeding S i - 1)) * feeding S i)
        by (apply Z.mul_nonneg_nonneg; [apply Z.mul_nonneg_nonneg; lia|lia]).
      lia.
  Qed.

  (** Step 2: the other picks share members with j. *)
  Lemma overlap j : In j S ->
    lambda * (size S - 1) <= sum (fun i => one_if (reach j i) * (feeding S i - 1)) (members n).
  Proof.
    intros J. destruct (in_split j S J) as (S1 & S2 & E).
    assert (A : sum (fun i => one_if (reach j i) * (feeding S i - 1)) (members n) = sum (shared j) (S1 ++ S2)).
    { unfold shared. rewrite sum_swapped. apply sum_ext. intros i _. rewrite sum_scaled. unfold feeding. rewrite E.
      rewrite !sum_app. cbn [sum]. destruct (reach j i); cbn [one_if]; lia. }
    rewrite A.
    assert (N : ~ In j (S1 ++ S2)) by (rewrite E in DIFFERENT; apply NoDup_remove_2 in DIFFERENT; assumption).
    assert (B : sum (fun _ => lambda) (S1 ++ S2) <= sum (shared j) (S1 ++ S2)).
    { apply sum_le. intros x X. apply SHARED; auto.
      - rewrite E. apply in_app_or in X. apply in_or_app. simpl. tauto.
      - intros ->. contradiction. }
    rewrite sum_constant in B. rewrite E. unfold size in *. rewrite app_length in *. cbn [length]. nia.
  Qed.

  (** Step 3: so j pays at least its penalty. *)
  Lemma pays j : In j S ->
    penalty lambda tau (size S) (y j) j
    <= sum (fun i => one_if (reach j i) * (w i * (feeding S i - 1))) (members n).
  Proof.
    intros J. unfold penalty, shortfall, reached.
    assert (A : y j * sum (fun i => one_if (reach j i) * (feeding S i - 1)) (members n)
                - (tau - 1) * sum (fun i => positive_part (y j - w i) * one_if (reach j i)) (members n)
                <= sum (fun i => one_if (reach j i) * (w i * (feeding S i - 1))) (members n)).
    { rewrite <- !sum_scaled, <- sum_minus. apply sum_le. intros i I. apply in_members in I.
      destruct (reach j i) eqn:R; cbn [one_if]; [|lia].
      pose proof (FED i I). pose proof (feeding_positive i j J R).
      assert ((y j - w i) * (feeding S i - 1) <= positive_part (y j - w i) * (tau - 1)).
      { unfold positive_part. destruct (Z_le_gt_dec (y j) (w i)); [rewrite Z.max_l by lia|rewrite Z.max_r by lia]; nia. }
      lia. }
    pose proof (overlap j J). pose proof (Y j). nia.
  Qed.

  Theorem grouped_cover :
    tau * cover n reach w S
    <= sum (fun j => tau * reached n reach w j - penalty lambda tau (size S) (y j) j) S.
  Proof.
    eapply Z.le_trans; [apply shares|]. apply sum_le. intros j J. pose proof (pays j J) as P.
    assert (E : sum (fun i => one_if (reach j i) * (w i * (tau - (feeding S i - 1)))) (members n)
                = tau * reached n reach w j - sum (fun i => one_if (reach j i) * (w i * (feeding S i - 1))) (members n)).
    { unfold reached. rewrite <- sum_scaled, <- sum_minus. apply sum_ext. intros. lia. }
    lia.
  Qed.
End Grouped.

(** Two partitions share exactly one member (planes): a second bound, better for few picks.

      2 cov(S) <= sum_{j in S} (2 Delta_j - pen_j) + 2 (t - 1) (t - 2)

    from 2 = 2 t_i - t_i (t_i - 1) + (t_i - 1) (t_i - 2), w_i <= 2, and sum_i t_i (t_i - 1) = t (t - 1). *)
Section Planes.
  Variables (n : nat) (reach : spread) (w : nat -> Z).
  Hypothesis W : forall i, (i < n)%nat -> 0 <= w i <= 2.
  Variables (S : list nat) (tau : Z) (y : nat -> Z).
  Hypothesis DIFFERENT : NoDup S.
  Hypothesis ONE : forall j j', In j S -> In j' S -> j <> j' -> shared n reach j j' = 1.
  Hypothesis FED : forall i, (i < n)%nat -> feeding reach S i <= tau.
  Hypothesis Y : forall j, 0 <= y j.
  Hypothesis SOME : 1 <= size S.

  Let f := feeding reach S.

  Lemma feeding_at_most_size i : f i <= size S.
  Proof.
    unfold f, feeding. rewrite <- (Z.mul_1_r (size S)), <- sum_constant. apply sum_le. intros.
    pose proof (one_if_bounds (reach x i)). lia.
  Qed.

  Lemma pairs : sum (fun i => f i * (f i - 1)) (members n) = size S * (size S - 1).
  Proof.
    assert (A : sum (fun i => f i * (f i - 1)) (members n)
                = sum (fun j => sum (fun i => one_if (reach j i) * (f i - 1)) (members n)) S).
    { rewrite sum_swapped. apply sum_ext. intros i _.
      rewrite (sum_ext _ (fun j => (f i - 1) * one_if (reach j i))) by (intros; lia). rewrite sum_scaled.
      unfold f at 1, feeding. lia. }
    rewrite A, (sum_ext _ (fun _ => size S - 1)); [apply sum_constant|].
    intros j J. destruct (in_split j S J) as (S1 & S2 & E).
    assert (B : sum (fun i => one_if (reach j i) * (f i - 1)) (members n) = sum (shared n reach j) (S1 ++ S2)).
    { unfold shared. rewrite sum_swapped. apply sum_ext. intros i _. rewrite sum_scaled. unfold f, feeding. rewrite E.
      rewrite !sum_app. cbn [sum]. destruct (reach j i); cbn [one_if]; lia. }
    rewrite B.
    assert (N : ~ In j (S1 ++ S2)) by (rewrite E in DIFFERENT; apply NoDup_remove_2 in DIFFERENT; assumption).
    rewrite (sum_ext _ (fun _ => 1)).
    - rewrite sum_constant, E. unfold size. rewrite !app_length. cbn [length]. lia.
    - intros x X. apply ONE; auto.
      + rewrite E. apply in_app_or in X. apply in_or_app. simpl. tauto.
      + intros ->. contradiction.
  Qed.

  Theorem plane_cover :
    2 * cover n reach w S
    <= sum (fun j => 2 * reached n reach w j - penalty n reach w 1 tau (size S) (y j) j) S
       + 2 * ((size S - 1) * (size S - 2)).
  Proof.
    set (t := size S) in *.
    assert (paid : sum (fun j => penalty n reach w 1 tau t (y j) j) S
                   <= sum (fun i => w i * (f i * (f i - 1))) (members n)).
    { eapply Z.le_trans; [apply sum_le; intros j J; apply (pays n reach w S 1 tau y DIFFERENT); auto|].
      - intros j1 j2 A B C. rewrite ONE by assumption. lia.
      - rewrite sum_swapped. apply sum_le. intros i _.
        rewrite (sum_ext _ (fun j => (w i * (f i - 1)) * one_if (reach j i))) by (intros; unfold f; lia).
        rewrite sum_scaled. change (sum (fun j => one_if (reach j i)) S) with (f i). lia. }
    assert (spare : sum (fun i => w i * ((f i - 1) * (f i - 2)) * one_if (touched reach S i)) (members n)
                    <= 2 * ((t - 1) * (t - 2))).
    { assert (A : t * sum (fun i => w i * ((f i - 1) * (f i - 2)) * one_if (touched reach S i)) (members n)
                  <= 2 * (t - 2) * sum (fun i => f i * (f i - 1)) (members n)).
      { rewrite <- !sum_scaled. apply sum_le. intros i I. apply in_members in I.
        pose proof (W i I). pose proof (feeding_at_most_size i) as L. fold t in L.
        pose proof (feeding_nonnegative reach S i) as F. fold (f i) in F.
        destruct (touched reach S i) eqn:T; cbn [one_if].
        - assert (1 <= f i).
          { unfold touched in T. apply existsb_exists in T. destruct T as (j & J & R).
            apply (feeding_positive reach S i j); auto. }
          assert (D : f i = 1 \/ 2 <= f i) by lia. destruct D as [D|D]; [rewrite D; lia|].
          assert (0 <= (f i - 1) * (f i - 2)) by nia.
          assert (w i * ((f i - 1) * (f i - 2)) <= 2 * ((f i - 1) * (f i - 2))) by nia.
          assert (t * ((f i - 1) * (f i - 2)) <= (t - 2) * (f i * (f i - 1))) by nia.
          nia.
        - assert (f i = 0).
          { unfold f, feeding. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
            intros j J. unfold touched in T. destruct (reach j i) eqn:R; [|reflexivity].
            assert (existsb (fun j => reach j i) S = true) by (apply existsb_exists; exists j; auto). congruence. }
          rewrite H0. lia. }
      rewrite pairs in A. fold t in A. nia. }
    assert (identity : 2 * cover n reach w S
                       = 2 * sum (reached n reach w) S - sum (fun i => w i * (f i * (f i - 1))) (members n)
                         + sum (fun i => w i * ((f i - 1) * (f i - 2)) * one_if (touched reach S i)) (members n)).
    { unfold reached. rewrite sum_swapped, <- !sum_scaled, <- sum_minus, <- sum_plus. unfold cover.
      rewrite <- sum_scaled. apply sum_ext. intros i _. rewrite sum_scaled.
      change (sum (fun j => one_if (reach j i)) S) with (f i).
      destruct (touched reach S i) eqn:T; cbn [one_if]; [nia|].
      assert (f i = 0).
      { unfold f, feeding. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
        intros j J. unfold touched in T. destruct (reach j i) eqn:R; [|reflexivity].
        assert (existsb (fun j => reach j i) S = true) by (apply existsb_exists; exists j; auto). congruence. }
      rewrite H. lia. }
    rewrite sum_minus, sum_scaled. lia.
  Qed.
End Planes.
