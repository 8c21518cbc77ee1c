(** Run-off election (Rezaei et al., ICML 2023), for declared classes: the two classes with the most votes meet, and more
    members rank the winner above the other. Ties go to the smaller class in both rounds.

    An attack must fulfil several conditions at once, each of the form cover(w) >= gap. A linear combination of them is
    one condition, so multipliers and a bound on covers are a witness that it cannot be fulfilled: R1's three conditions
    are the multipliers (1, 0), (0, 1) and (1, 1), for a member votes for one of two classes only. The theorem holds for any spread; d = 1 is a case of it. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes Cover Theorem2.
Import ListNotations.
Open Scope Z_scope.

(** [prefers i a b]: member i ranks a above b. *)
Definition ranking := nat -> Z -> Z -> bool.

(** How far p is ahead of c in the second round, less one where a tie would go to c. *)
Definition duel (n : nat) (prefers : ranking) (p c : Z) : Z :=
  sum (fun i => one_if (prefers i p c) - one_if (prefers i c p)) (members n) - one_if (c <? p).

(** p is elected: of any two others one does not stand above p in round 1, so p is in the second; and every class that
    could be there with it, because nobody but p stands above it, loses to p. *)
Definition wins_run_off (K : Z) (n : nat) (v : nat -> Z) (prefers : ranking) (p : Z) : Prop :=
  0 <= p < K
  /\ (forall a b, 0 <= a < K -> 0 <= b < K -> a <> b -> a <> p -> b <> p -> 0 <= lead n v p a \/ 0 <= lead n v p b)
  /\ (forall c, 0 <= c < K -> c <> p ->
        0 <= duel n prefers p c \/ exists x, 0 <= x < K /\ x <> p /\ x <> c /\ 0 <= lead n v x c).

(** Of two classes one is ahead, and not the other. *)
Lemma lead_asymmetric n v a b : a <> b -> (0 <= lead n v a b <-> lead n v b a < 0).
Proof. intros N. unfold lead, one_if. destruct (Z.ltb_spec a b), (Z.ltb_spec b a); lia. Qed.

Lemma duel_asymmetric n prefers a b : a <> b -> 0 <= duel n prefers a b -> duel n prefers b a < 0.
Proof.
  intros N. unfold duel. rewrite !sum_minus. unfold one_if at 3 6. destruct (Z.ltb_spec a b), (Z.ltb_spec b a); lia.
Qed.

Theorem wins_run_off_unique K n v prefers p q : wins_run_off K n v prefers p -> wins_run_off K n v prefers q -> p = q.
Proof.
  assert (one : forall p q, wins_run_off K n v prefers p -> wins_run_off K n v prefers q -> p <> q ->
                0 <= duel n prefers p q \/ 0 <= lead n v q p).
  { clear. intros p q (P & P1 & P2) (Q & Q1 & Q2) N.
    destruct (P2 q Q ltac:(lia)) as [D|(x & X & XP & XQ & A)]; [left; assumption|right].
    destruct (Q1 x p X P) as [B|B]; auto. apply lead_asymmetric in A; auto. lia. }
  intros WP WQ. destruct (Z.eq_dec p q) as [|N]; [assumption|exfalso].
  assert (both : forall p q, wins_run_off K n v prefers p -> wins_run_off K n v prefers q -> p <> q ->
                 0 <= duel n prefers p q).
  { clear - one. intros p q WP WQ N. destruct (one p q WP WQ N) as [D|A]; [assumption|].
    destruct WP as (P & P1 & P2), WQ as (Q & Q1 & Q2).
    destruct (P2 q Q ltac:(lia)) as [D|(x & X & XP & XQ & B)]; [assumption|exfalso].
    assert (C : 0 <= lead n v x p).
    { unfold lead, one_if in *. destruct (Z.ltb_spec p q), (Z.ltb_spec q x), (Z.ltb_spec p x); lia. }
    apply lead_asymmetric in A; auto. apply lead_asymmetric in C; auto.
    destruct (P1 x q X Q) as [F|F]; auto; lia. }
  pose proof (both p q WP WQ N). pose proof (both q p WQ WP ltac:(auto)).
  pose proof (duel_asymmetric n prefers p q N). lia.
Qed.

(** 1 + [p above c] - [c above p] *)
Definition duel_weight (prefers : ranking) (p c : Z) (i : nat) : Z := 1 + one_if (prefers i p c) - one_if (prefers i c p).

(** What a member costs, at most, that turns from p to a or to b, whichever weighs more. *)
Definition pair_weight (v : nat -> Z) (p a b la lb : Z) (i : nat) : Z :=
  Z.max la lb + (la + lb) * one_if (v i =? p) - la * one_if (v i =? a) - lb * one_if (v i =? b).

Lemma pair_weight_nonnegative v p a b la lb i : a <> b -> 0 <= la -> 0 <= lb -> 0 <= pair_weight v p a b la lb i.
Proof.
  intros N A B. unfold pair_weight.
  destruct (Z.eqb_spec (v i) p), (Z.eqb_spec (v i) a), (Z.eqb_spec (v i) b); cbn [one_if]; lia.
Qed.

Section Attack.
  Variables (n : nat) (reach : spread) (v v' : nat -> Z) (prefers prefers' : ranking) (H : list nat).
  Hypothesis VOTES : poisoned n reach H v v'.
  Hypothesis RANKS : forall i, (i < n)%nat -> touched reach H i = false -> prefers' i = prefers i.

  Lemma lead_falls p c : p <> c -> lead n v p c - cover n reach (weight v p c) H <= lead n v' p c.
  Proof. intros N. apply lead_loses_at_most_the_weight; assumption. Qed.

  Lemma pair_falls p a b la lb : p <> a -> p <> b -> a <> b -> 0 <= la -> 0 <= lb ->
    la * lead n v p a + lb * lead n v p b - cover n reach (pair_weight v p a b la lb) H
    <= la * lead n v' p a + lb * lead n v' p b.
  Proof.
    intros PA PB AB LA LB.
    set (worth := fun (u : nat -> Z) i => la * (one_if (u i =? p) - one_if (u i =? a))
                                          + lb * (one_if (u i =? p) - one_if (u i =? b))).
    assert (E : forall u, la * lead n u p a + lb * lead n u p b
                          = sum (worth u) (members n) - la * one_if (a <? p) - lb * one_if (b <? p)).
    { intros u. unfold worth, lead, count. rewrite sum_plus, !sum_scaled, !sum_minus. ring. }
    assert (sum (worth v) (members n) - cover n reach (pair_weight v p a b la lb) H <= sum (worth v') (members n)).
    { unfold cover. rewrite <- sum_minus. apply sum_le. intros i I. apply in_members in I. specialize (VOTES i I).
      unfold worth, pair_weight. destruct (touched reach H i).
      - destruct (Z.eqb_spec (v i) p), (Z.eqb_spec (v i) a), (Z.eqb_spec (v i) b),
          (Z.eqb_spec (v' i) p), (Z.eqb_spec (v' i) a), (Z.eqb_spec (v' i) b); cbn [one_if]; lia.
      - rewrite VOTES by reflexivity. cbn [one_if]. lia. }
    rewrite !E. lia.
  Qed.

  Lemma duel_falls p c : duel n prefers p c - cover n reach (duel_weight prefers p c) H <= duel n prefers' p c.
  Proof.
    unfold duel, cover.
    assert (sum (fun i => one_if (prefers i p c) - one_if (prefers i c p)) (members n)
            - sum (fun i => duel_weight prefers p c i * one_if (touched reach H i)) (members n)
            <= sum (fun i => one_if (prefers' i p c) - one_if (prefers' i c p)) (members n)).
    { rewrite <- sum_minus. apply sum_le. intros i I. apply in_members in I. specialize (RANKS i I).
      unfold duel_weight. destruct (touched reach H i).
      - destruct (prefers i p c), (prefers i c p), (prefers' i p c), (prefers' i c p); simpl; lia.
      - rewrite RANKS by reflexivity. change (one_if false) with 0. lia. }
    lia.
  Qed.

  Lemma cover_combines a b w1 w2 :
    cover n reach (fun i => a * w1 i + b * w2 i) H = a * cover n reach w1 H + b * cover n reach w2 H.
  Proof.
    unfold cover. rewrite <- !sum_scaled, <- sum_plus. apply sum_ext. intros. ring.
  Qed.
End Attack.

(** A combination of conditions "x stays above c": pairs of a class x and its multiplier. *)
Definition combined (v : nat -> Z) (c : Z) (l : list (Z * Z)) (i : nat) : Z :=
  sum (fun xl => snd xl * weight v (fst xl) c i) l.

Theorem run_off_sound K n reach v v' prefers prefers' p Q r H :
  0 <= p < K ->
  (* round 1: no two classes can both be raised above p *)
  (forall a b, 0 <= a < K -> 0 <= b < K -> a <> b -> a <> p -> b <> p ->
     exists la lb B, 0 <= la /\ 0 <= lb /\
       bounded n reach (pair_weight v p a b la lb) Q r B /\
       B < la * (lead n v p a + 1) + lb * (lead n v p b + 1)) ->
  (* round 2: no class can be raised above all others but p, and beat p *)
  (forall c, 0 <= c < K -> c <> p ->
     exists mu l B, 0 <= mu /\
       (forall x lx, In (x, lx) l -> 0 <= lx /\ 0 <= x < K /\ x <> p /\ x <> c) /\
       bounded n reach (fun i => mu * duel_weight prefers p c i + 1 * combined v c l i) Q r B /\
       B < mu * (duel n prefers p c + 1) + sum (fun xl => snd xl * (lead n v (fst xl) c + 1)) l) ->
  incl H Q -> size H <= r ->
  poisoned n reach H v v' ->
  (forall i, (i < n)%nat -> touched reach H i = false -> prefers' i = prefers i) ->
  wins_run_off K n v' prefers' p.
Proof.
  intros P R1 R2 I S PO RANKS.
  split; [assumption|]. split.
  - intros a b A B AB AP BP.
    destruct (Z_lt_le_dec (lead n v' p a) 0) as [NA|]; [|left; assumption].
    destruct (Z_lt_le_dec (lead n v' p b) 0) as [NB|]; [|right; assumption]. exfalso.
    destruct (R1 a b A B AB AP BP) as (la & lb & most & LA & LB & BOUND & LESS).
    pose proof (bounded_for_lists n reach _ Q r _ H BOUND I S) as C.
    pose proof (pair_falls n reach v v' H PO p a b la lb ltac:(auto) ltac:(auto) AB LA LB). nia.
  - intros c C CP. destruct (R2 c C CP) as (mu & l & most & MU & L & BOUND & LESS).
    destruct (Z_lt_le_dec (duel n prefers' p c) 0) as [D|]; [right|left; assumption].
    assert (SOME : (exists xl, In xl l /\ 0 <= lead n v' (fst xl) c)
                   \/ forall xl, In xl l -> lead n v' (fst xl) c < 0).
    { clear - l. induction l as [|y l IH]; [right; intros ? []|].
      destruct (Z_lt_le_dec (lead n v' (fst y) c) 0) as [Y|Y].
      - destruct IH as [(xl & X & E)|IH]; [left; exists xl; split; [right|]; assumption|right].
        intros xl [<-|X]; auto.
      - left. exists y. split; [left; reflexivity|assumption]. }
    destruct SOME as [((x & lx) & X & E)|ALL].
    + destruct (L x lx X) as (_ & XK & XP & XC). exists x. auto.
    + exfalso.
      pose proof (bounded_for_lists n reach _ Q r _ H BOUND I S) as COV.
      rewrite (cover_combines n reach H mu 1) in COV.
      assert (SUM : sum (fun xl => snd xl * (lead n v (fst xl) c + 1)) l <= cover n reach (combined v c l) H).
      { assert (E : cover n reach (combined v c l) H = sum (fun xl => snd xl * cover n reach (weight v (fst xl) c) H) l).
        { unfold cover, combined.
          rewrite (sum_ext (fun i => sum (fun xl => snd xl * weight v (fst xl) c i) l * one_if (touched reach H i))
                     (fun i => sum (fun xl => snd xl * (weight v (fst xl) c i * one_if (touched reach H i))) l)).
          - rewrite sum_swapped. apply sum_ext. intros. rewrite sum_scaled. reflexivity.
          - intros i _. rewrite Z.mul_comm, <- sum_scaled. apply sum_ext. intros. ring. }
        rewrite E. apply sum_le. intros (x & lx) X. destruct (L x lx X) as (LX & _ & _ & XC). cbn [fst snd].
        specialize (ALL (x, lx) X). cbn [fst] in ALL.
        pose proof (lead_falls n reach v v' H PO x c XC). nia. }
      pose proof (duel_falls n reach prefers prefers' H RANKS p c). nia.
Qed.
