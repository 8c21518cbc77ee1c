(** Votes, and what it means to win them.

    There are n members (base classifiers) 0 ... n-1; [v i] is the vote of member i. Classes are integers below K:

    - 0 ... K-1 are the classes that everybody knows;
    - K and above stand for no class at all: an abstention;
    - negative codes are labels that an attacker invents. There may be any number of them, and each wins ties against
      every known class, since its name may sort anywhere. They can win only where classes were inferred from the data:
      where they were declared, rows with other labels are dropped, and a vote for one of them counts for nothing. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums.
Import ListNotations.
Open Scope Z_scope.

Definition members (n : nat) : list nat := seq 0 n.

Inductive labels := Declared | Inferred.

(** N_c of the paper, times k d: how many members vote c. *)
Definition count (n : nat) (v : nat -> Z) (c : Z) : Z := sum (fun i => one_if (v i =? c)) (members n).

(** m_c: how far p is ahead of c, less one where a tie would go to c. *)
Definition lead (n : nat) (v : nat -> Z) (p c : Z) : Z := count n v p - count n v c - one_if (c <? p).

(** Who stands for election: every known class, and an invented one if somebody votes for it. *)
Definition candidate (L : labels) (K : Z) (n : nat) (v : nat -> Z) (c : Z) : Prop :=
  match L with
  | Declared => 0 <= c < K
  | Inferred => c < K /\ (0 <= c \/ 0 < count n v c)
  end.

(** The prediction is p: no candidate has more votes, and none that comes before p has as many. *)
Definition wins (L : labels) (K : Z) (n : nat) (v : nat -> Z) (p : Z) : Prop :=
  0 <= p < K /\ forall c, candidate L K n v c -> c <> p -> 0 <= lead n v p c.

(** 1 + [v_i = p] - [v_i = c]: what the lead of p over c can lose at member i. *)
Definition weight (v : nat -> Z) (p c : Z) (i : nat) : Z := 1 + one_if (v i =? p) - one_if (v i =? c).

Lemma in_members n i : In i (members n) <-> (i < n)%nat.
Proof. unfold members. rewrite in_seq. lia. Qed.

Lemma count_nonnegative n v c : 0 <= count n v c.
Proof. apply sum_nonnegative. intros. pose proof (one_if_bounds (v x =? c)). lia. Qed.

Lemma count_unchanged n v v' c : (forall i, (i < n)%nat -> v' i = v i) -> count n v' c = count n v c.
Proof. intros E. apply sum_ext. intros i I. apply in_members in I. rewrite E; auto. Qed.

(** The prediction is one class and no other. *)
Theorem wins_unique L K n v p q : wins L K n v p -> wins L K n v q -> p = q.
Proof.
  intros [P HP] [Q HQ].
  assert (known : forall c, 0 <= c < K -> candidate L K n v c) by (intros; unfold candidate; destruct L; lia).
  destruct (Z.eq_dec p q) as [|N]; [assumption|].
  pose proof (HP q (known q Q) ltac:(lia)) as A. pose proof (HQ p (known p P) ltac:(lia)) as B.
  unfold lead, one_if in *. destruct (Z.ltb_spec q p), (Z.ltb_spec p q); lia.
Qed.

Lemma weight_bounds v p c i : p <> c -> 0 <= weight v p c i <= 2.
Proof.
  intros N. unfold weight, one_if. destruct (Z.eqb_spec (v i) p), (Z.eqb_spec (v i) c); lia.
Qed.

(** If votes change only where [touched] says so, the lead loses at most the weight of what is touched. *)
Lemma lead_loses_at_most_the_weight n v v' p c touched :
  p <> c ->
  (forall i, (i < n)%nat -> touched i = false -> v' i = v i) ->
  lead n v p c - sum (fun i => weight v p c i * one_if (touched i)) (members n) <= lead n v' p c.
Proof.
  intros N E. unfold lead.
  assert (sum (fun i => one_if (v i =? p) - one_if (v i =? c)) (members n)
          - sum (fun i => weight v p c i * one_if (touched i)) (members n)
          <= sum (fun i => one_if (v' i =? p) - one_if (v' i =? c)) (members n)).
  { rewrite <- sum_minus. apply sum_le. intros i I. apply in_members in I. specialize (E i I).
    unfold weight, one_if. destruct (touched i).
    - destruct (Z.eqb_spec (v i) p), (Z.eqb_spec (v i) c), (Z.eqb_spec (v' i) p), (Z.eqb_spec (v' i) c); lia.
    - rewrite E by reflexivity. destruct (v i =? p), (v i =? c); lia. }
  rewrite !sum_minus in H. unfold count. lia.
Qed.

(** Some class wins, if there is any: the known classes and all votes, looked at one by one. *)
Definition better (n : nat) (v : nat -> Z) (a b : Z) : Z := if 0 <=? lead n v a b then a else b.

Lemma better_is_ahead n v a b c : c = a \/ c = b -> c <> better n v a b -> 0 <= lead n v (better n v a b) c.
Proof.
  intros C N. unfold better in *. destruct (Z.leb_spec 0 (lead n v a b)).
  - destruct C; subst; [contradiction|assumption].
  - destruct C; subst; [|contradiction]. unfold lead, one_if in *.
    destruct (Z.ltb_spec b a), (Z.ltb_spec a b); lia.
Qed.

Lemma ahead_of_ahead n v a b c :
  a <> b -> b <> c -> a <> c -> 0 <= lead n v a b -> 0 <= lead n v b c -> 0 <= lead n v a c.
Proof.
  unfold lead, one_if. intros.
  destruct (Z.ltb_spec b a), (Z.ltb_spec c b), (Z.ltb_spec c a); lia.
Qed.

Lemma best_of_list n v : forall l a, exists b, In b (a :: l) /\ forall c, In c (a :: l) -> c <> b -> 0 <= lead n v b c.
Proof.
  induction l as [|x l IH]; intros a.
  - exists a. split; [left; reflexivity|]. intros c [->|[]] N. contradiction.
  - destruct (IH (better n v a x)) as (b & B & H). exists b. split.
    + destruct B as [B|B]; [|right; right; assumption].
      subst b. unfold better. destruct (0 <=? lead n v a x); [left|right; left]; reflexivity.
    + intros c C N.
      destruct C as [C|[C|C]]; [| |apply H; [right; assumption|assumption]];
      (destruct (Z.eq_dec c (better n v a x)) as [E|E]; [apply H; [left; auto|assumption]|];
       assert (A : 0 <= lead n v (better n v a x) c) by (apply better_is_ahead; auto);
       destruct (Z.eq_dec b (better n v a x)) as [F|F]; [rewrite F; assumption|];
       apply (ahead_of_ahead n v b (better n v a x) c); auto; apply H; [left; reflexivity|auto]).
Qed.

Theorem somebody_wins K n v : 0 < K -> exists p, wins Declared K n v p.
Proof.
  intros P. destruct (best_of_list n v (map Z.of_nat (seq 0 (Z.to_nat K))) 0) as (b & B & H).
  assert (known : forall c, In c (0 :: map Z.of_nat (seq 0 (Z.to_nat K))) <-> 0 <= c < K).
  { intros c. simpl. rewrite in_map_iff. split.
    - intros [<-|(i & <- & I)]; [lia|]. apply in_seq in I. lia.
    - intros C. right. exists (Z.to_nat c). split; [lia|]. apply in_seq. lia. }
  exists b. split; [apply known; assumption|]. intros c C N. apply H; [apply known; exact C|assumption].
Qed.
