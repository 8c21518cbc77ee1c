(** The tight certificate: a member that two poisons reach counts once.

    (T1) the dual bound, from a witness u on a grid of 1/G; (T2) branching: every attack uses partition j or does not.
    Together they are a tree whose leaves are dual bounds; a tree is a witness that nobody needs to trust. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes Cover Theorem2.
Import ListNotations.
Open Scope Z_scope.

Section Tight.
  Variables (n : nat) (reach : spread).

  (** T1. For any 0 <= u <= G w: G cov(H) <= sum_i (G w_i - u_i) + the m largest sums of u over spread(j); and cov(H)
      is an integer, so less than G (B + 1) is enough. u = G w is Theorem 2. *)
  Theorem dual_bound (G : Z) w u Q m t B :
    0 < G -> 0 <= t ->
    (forall i, (i < n)%nat -> 0 <= u i <= G * w i) ->
    sum (fun i => G * w i - u i) (members n) + largest n reach u Q m t < G * (B + 1) ->
    bounded n reach w Q m B.
  Proof.
    intros G0 T U L H D I S.
    assert (A : cover n reach u H <= largest n reach u Q m t).
    { apply largest_bounds; auto. intros i J. specialize (U i J). lia. }
    assert (E : G * cover n reach w H <= cover n reach u H + sum (fun i => G * w i - u i) (members n)).
    { unfold cover. rewrite <- sum_scaled, <- sum_plus. apply sum_le. intros i J. apply in_members in J.
      specialize (U i J). destruct (touched reach H i); simpl; lia. }
    nia.
  Qed.

  (** Weights once the members of partition j are covered. *)
  Definition without (j : nat) (w : nat -> Z) (i : nat) : Z := if reach j i then 0 else w i.

  Lemma cover_splits w j H1 H2 :
    cover n reach w (H1 ++ j :: H2) = reached n reach w j + cover n reach (without j w) (H1 ++ H2).
  Proof.
    unfold cover, reached. rewrite <- sum_plus. apply sum_ext. intros i _. unfold without, touched.
    rewrite !existsb_app. simpl.
    destruct (reach j i), (existsb (fun j => reach j i) H1), (existsb (fun j => reach j i) H2); simpl; lia.
  Qed.

  (** T2. Attacks without j, and attacks with it. *)
  Theorem branch (w : nat -> Z) (j : nat) (Q Q' : list nat) (m B : Z) :
    (forall x, In x Q -> x <> j -> In x Q') ->
    bounded n reach w Q' m B ->
    bounded n reach (without j w) Q' (m - 1) (B - reached n reach w j) ->
    bounded n reach w Q m B.
  Proof.
    intros E WITHOUT WITH H D I S.
    destruct (in_dec Nat.eq_dec j H) as [J|J].
    - destruct (in_split j H J) as (H1 & H2 & ->).
      rewrite cover_splits.
      assert (D' := NoDup_remove_1 _ _ _ D). assert (N := NoDup_remove_2 _ _ _ D).
      assert (F : cover n reach (without j w) (H1 ++ H2) <= B - reached n reach w j).
      { apply WITH; auto.
        - intros x X. apply E; [apply I; apply in_app_or in X; apply in_or_app; simpl; tauto|]. intros ->. contradiction.
        - unfold size in *. rewrite app_length in *. simpl length in S. lia. }
      lia.
    - apply WITHOUT; auto. intros x X. apply E; [auto|]. intros ->. contradiction.
  Qed.

  (** A cover by H is at most the covers by two halves of H. *)
  Lemma cover_subadditive w (part : nat -> bool) H :
    (forall i, (i < n)%nat -> 0 <= w i) ->
    cover n reach w H <= cover n reach w (filter part H) + cover n reach w (filter (fun j => negb (part j)) H).
  Proof.
    intros W. unfold cover. rewrite <- sum_plus. apply sum_le. intros i I. apply in_members in I. specialize (W i I).
    assert (touched reach H i = true ->
            touched reach (filter part H) i = true \/ touched reach (filter (fun j => negb (part j)) H) i = true).
    { unfold touched. rewrite !existsb_exists. intros (j & J & R).
      destruct (part j) eqn:E; [left|right]; exists j; (split; [|assumption]); apply filter_In; rewrite E; auto. }
    destruct (touched reach H i), (touched reach (filter part H) i),
      (touched reach (filter (fun j => negb (part j)) H) i); simpl in *; try lia.
  Qed.
End Tight.

(** The other direction, for any spread: if partitions H cover more than the lead, the votes they reach can be changed
    so that the prediction is not p any more. So the best bound on covers gives the exact radius. *)
Theorem attack_exists L K n reach v p c H :
  0 <= c < K -> c <> p ->
  lead n v p c < cover n reach (weight v p c) H ->
  exists v', poisoned n reach H v v' /\ ~ wins L K n v' p.
Proof.
  intros C N A. exists (fun i => if touched reach H i then c else v i). split.
  - intros i _ T. rewrite T. reflexivity.
  - intros [P W].
    assert (F : candidate L K n (fun i => if touched reach H i then c else v i) c) by (destruct L; simpl; lia).
    specialize (W c F N). clear F.
    assert (E : lead n (fun i => if touched reach H i then c else v i) p c
                = lead n v p c - cover n reach (weight v p c) H).
    { unfold lead, count, cover.
      assert (X : sum (fun i => one_if ((if touched reach H i then c else v i) =? p)
                                - one_if ((if touched reach H i then c else v i) =? c)) (members n)
                  = sum (fun i => one_if (v i =? p) - one_if (v i =? c)
                                  - weight v p c i * one_if (touched reach H i)) (members n)).
      { apply sum_ext. intros i _. unfold weight. destruct (touched reach H i); [|change (one_if false) with 0; lia].
        rewrite Z.eqb_refl. destruct (Z.eqb_spec c p); [contradiction|].
        change (one_if true) with 1. change (one_if false) with 0. lia. }
      rewrite sum_minus, sum_minus, sum_minus in X. lia. }
    lia.
Qed.
