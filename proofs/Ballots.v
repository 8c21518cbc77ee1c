(** Ballots: training samples vote, through a map that nobody can poison.

    For one fixed test sample x, [ballot s] is what training sample s says: +1 or -1 for its own label (near or far),
    or 1 and 0 (plain radius neighbours); in any case between -1 and 1. [sizes c] is the declared size of class c, a
    constant from outside. F_c = sum of the ballots labelled c, plus the declared size. *)

From Coq Require Import ZArith List Lia Bool Permutation.
From Poisonproof Require Import Sums Votes Training Lists.
Import ListNotations.
Open Scope Z_scope.

Section Ballots.
  Context {sample : Type}.
  Variables (label : sample -> Z) (ballot : sample -> Z) (sizes : Z -> Z).
  Hypothesis BALLOT : forall s, -1 <= ballot s <= 1.

  Definition score (D : list sample) (c : Z) : Z := sizes c + sum (fun s => one_if (label s =? c) * ballot s) D.

  Definition ballot_lead (D : list sample) (p c : Z) : Z := score D p - score D c - one_if (c <? p).

  (** Known classes always stand; an invented one (a negative code, declared size 0) if a sample bears it. *)
  Definition stands (L : labels) (K : Z) (D : list sample) (c : Z) : Prop :=
    match L with
    | Declared => 0 <= c < K
    | Inferred => c < K /\ (0 <= c \/ exists s, In s D /\ label s = c)
    end.

  Definition elects (L : labels) (K : Z) (D : list sample) (p : Z) : Prop :=
    0 <= p < K /\ forall c, stands L K D c -> c <> p -> 0 <= ballot_lead D p c.

  (** Rivals that an attacker who can change r samples may think of. *)
  Definition possible_rival (L : labels) (K r c : Z) : Prop := c < K /\ (0 <= c \/ (L = Inferred /\ 0 < r)).

  Definition says (p c : Z) (s : sample) : Z := (one_if (label s =? p) - one_if (label s =? c)) * ballot s.

  Lemma ballot_lead_as_sum D p c : ballot_lead D p c = sizes p - sizes c - one_if (c <? p) + sum (says p c) D.
  Proof.
    unfold ballot_lead, score, says.
    rewrite (sum_ext (fun s => (one_if (label s =? p) - one_if (label s =? c)) * ballot s)
               (fun s => one_if (label s =? p) * ballot s - one_if (label s =? c) * ballot s)) by (intros; ring).
    rewrite sum_minus. lia.
  Qed.

  (** The influence of one sample on any lead is at most 1. *)
  Lemma influence p c s : c <> p -> -1 <= says p c s <= 1.
  Proof.
    intros N. unfold says. specialize (BALLOT s).
    destruct (Z.eqb_spec (label s) p), (Z.eqb_spec (label s) c); cbn [one_if]; lia.
  Qed.

  Lemma sum_of_says p c l : c <> p -> - size l <= sum (says p c) l <= size l.
  Proof.
    intros N. unfold size. induction l as [|s l IH]; cbn [sum length]; [lia|].
    pose proof (influence p c s N). lia.
  Qed.

  Lemma ballot_lead_changes r D D' p c : c <> p -> within r D D' -> ballot_lead D p c - r <= ballot_lead D' p c.
  Proof.
    intros N (C & R & I & ED & ED' & S). rewrite !ballot_lead_as_sum.
    rewrite (sum_permuted _ _ _ ED), (sum_permuted _ _ _ ED'), !sum_app.
    pose proof (sum_of_says p c R N). pose proof (sum_of_says p c I N). lia.
  Qed.

  (** Soundness: r poisons are harmless if every lead is at least r. *)
  Theorem ballots_sound L K D D' p r :
    elects L K D p ->
    (forall c, possible_rival L K r c -> c <> p -> r <= ballot_lead D p c) ->
    within r D D' -> elects L K D' p.
  Proof.
    intros [P E] M NEAR. split; [assumption|]. intros c C N.
    assert (step : possible_rival L K r c -> 0 <= ballot_lead D' p c).
    { intros Q. specialize (M c Q N). pose proof (ballot_lead_changes r D D' p c N NEAR). lia. }
    destruct L; cbn [stands] in C.
    - apply step. split; lia.
    - destruct C as [CK [C|(s & IN & LS)]]; [apply step; split; lia|].
      destruct (Z_lt_le_dec 0 r) as [R|R]; [apply step; split; auto|].
      (* nothing was changed *)
      destruct NEAR as (C & RR & I & ED & ED' & S).
      assert (RR = []) by (destruct RR; [reflexivity|unfold size in S; simpl length in S; lia]).
      assert (I = []) by (destruct I; [reflexivity|unfold size in S; simpl length in S; lia]). subst.
      rewrite app_nil_r in *.
      assert (same : Permutation D D') by (eapply perm_trans; [eassumption|apply Permutation_sym; assumption]).
      assert (0 <= ballot_lead D p (label s)).
      { apply E; auto. split; [assumption|]. right. exists s. split; [|reflexivity].
        apply (Permutation_in _ (Permutation_sym same)). assumption. }
      rewrite ballot_lead_as_sum in *. rewrite <- (sum_permuted _ _ _ same). assumption.
  Qed.

  (** Attack: copies of a sample that is near x, labelled c, lower the lead of p over c by 1 each. *)
  Lemma copies_lower_the_lead D p c s (m : nat) : c <> p -> label s = c -> ballot s = 1 ->
    ballot_lead (D ++ repeat s m) p c = ballot_lead D p c - Z.of_nat m.
  Proof.
    intros N LS BS. rewrite !ballot_lead_as_sum, sum_app.
    assert (sum (says p c) (repeat s m) = - Z.of_nat m).
    { induction m as [|m IH]; [reflexivity|]. cbn [repeat sum]. rewrite IH. unfold says. rewrite LS, BS, Z.eqb_refl.
      destruct (Z.eqb_spec c p); [contradiction|]. cbn [one_if]. lia. }
    lia.
  Qed.

  (** Exactness: where every lead counts, one more poison than the smallest lead elects another class, if a sample near
      x can be labelled with the rival. *)
  Theorem ballots_exact L K D p c r s :
    possible_rival L K r c -> c <> p -> label s = c -> ballot s = 1 -> 0 <= r -> ballot_lead D p c < r ->
    exists D', within r D D' /\ ~ elects L K D' p.
  Proof.
    intros Q N LS BS R M.
    destruct (Z.eq_dec r 0) as [R0|R1].
    - exists D. split.
      + exists D, [], []. rewrite app_nil_r. unfold size. simpl. repeat split; auto; lia.
      + intros [P E]. assert (0 <= ballot_lead D p c); [|lia]. apply E; auto.
        destruct Q as [QK [Q|[-> Q]]]; [destruct L; simpl; lia|lia].
    - exists (D ++ repeat s (Z.to_nat r)). split.
      + exists D, [], (repeat s (Z.to_nat r)). rewrite app_nil_r. unfold size. rewrite repeat_length. simpl.
        repeat split; auto. lia.
      + intros [P E]. assert (A : 0 <= ballot_lead (D ++ repeat s (Z.to_nat r)) p c).
        { apply E; auto. destruct Q as [QK [Q|[-> Q]]]; [destruct L; simpl; lia|].
          split; [assumption|]. right. exists s. split; [|assumption]. apply in_or_app. right.
          destruct (Z.to_nat r) eqn:F; [lia|]. left. reflexivity. }
        rewrite copies_lower_the_lead in A by assumption. lia.
  Qed.

  (** Both directions at once: r is a radius exactly if every lead is at least r. *)
  Theorem ballots_radius L K D p r :
    0 <= r -> elects L K D p ->
    (forall c, exists s, label s = c /\ ballot s = 1) ->
    ((forall D', within r D D' -> elects L K D' p)
     <-> (forall c, possible_rival L K r c -> c <> p -> r <= ballot_lead D p c)).
  Proof.
    intros R E NEAR. split.
    - intros A c Q N. destruct (Z_lt_le_dec (ballot_lead D p c) r) as [M|M]; [|assumption].
      destruct (NEAR c) as (s & LS & BS).
      destruct (ballots_exact L K D p c r s Q N LS BS R M) as (D' & W & B). exfalso. auto.
    - intros M D' W. apply (ballots_sound L K D D' p r); auto.
  Qed.

  (** A flipped label, or a changed sample, counts two. *)
  Theorem ballots_modifications L K D D' p r :
    elects L K D p ->
    (forall c, possible_rival L K (2 * r) c -> c <> p -> 2 * r <= ballot_lead D p c) ->
    modified r D D' -> elects L K D' p.
  Proof. intros E M F. apply (ballots_sound L K D D' p (2 * r)); auto. apply modification_counts_two. assumption. Qed.

  (** Where classes were inferred, a class vanishes with its last sample. A rival may; the elected class does not, since
      the checker holds r below its score. *)
  Theorem elected_class_keeps_a_sample D D' p r :
    sizes p = 0 -> within r D D' -> r < score D p -> exists s, In s D' /\ label s = p.
  Proof.
    intros ZERO (C & R & I & ED & ED' & S) LESS. unfold score in LESS.
    set (f := fun s => one_if (label s =? p) * ballot s) in *.
    assert (bound : forall l, - size l <= sum f l <= size l).
    { unfold size. induction l as [|s l IH]; cbn [sum length]; [lia|]. unfold f at 1 3. specialize (BALLOT s).
      destruct (label s =? p); cbn [one_if]; lia. }
    assert (LEFT : 0 < sum f D').
    { rewrite (sum_permuted _ _ _ ED), sum_app in LESS. rewrite (sum_permuted _ _ _ ED'), sum_app.
      pose proof (bound R). pose proof (bound I). lia. }
    clear - LEFT. induction D' as [|s D' IH]; cbn [sum] in LEFT; [lia|].
    destruct (Z.eqb_spec (label s) p) as [E|E]; [exists s; split; [left; reflexivity|assumption]|].
    destruct IH as (x & X & EX).
    - unfold f in LEFT at 1. destruct (Z.eqb_spec (label s) p); [contradiction|]. cbn [one_if] in LEFT. lia.
    - exists x. split; [right; assumption|assumption].
  Qed.

  (** The elected class is one and no other. *)
  Theorem elects_unique L K D p q : elects L K D p -> elects L K D q -> p = q.
  Proof.
    intros [P EP] [Q EQ]. destruct (Z.eq_dec p q) as [|N]; [assumption|].
    assert (known : forall c, 0 <= c < K -> stands L K D c) by (intros; unfold stands; destruct L; lia).
    pose proof (EP q (known q Q) ltac:(lia)). pose proof (EQ p (known p P) ltac:(lia)).
    unfold ballot_lead, one_if in *. destruct (Z.ltb_spec q p), (Z.ltb_spec p q); lia.
  Qed.
End Ballots.

(** The two rules: two-sided ballots (+1 near, -1 far), and plain radius neighbours (1 near, 0 far). *)
Definition two_sided {sample : Type} (near : sample -> bool) (s : sample) : Z := 2 * one_if (near s) - 1.
Definition one_sided {sample : Type} (near : sample -> bool) (s : sample) : Z := one_if (near s).

Lemma two_sided_bounds {sample : Type} (near : sample -> bool) s : -1 <= two_sided near s <= 1.
Proof. unfold two_sided. destruct (near s); cbn [one_if]; lia. Qed.

Lemma one_sided_bounds {sample : Type} (near : sample -> bool) s : -1 <= one_sided near s <= 1.
Proof. unfold one_sided. destruct (near s); cbn [one_if]; lia. Qed.

(** * The checker of one test sample

    It is shown, for every class, the declared size, how many training samples there are, and how many of them are
    near x. *)
Record ballot_setting := BallotSetting {
  ballot_labels : labels; ballot_classes : Z; both_sides : bool; class_sizes : list Z; class_totals : list Z }.

Definition score_of (s : ballot_setting) (near : list Z) (c : Z) : Z :=
  let i := Z.to_nat c in
  entry (class_sizes s) i
  + (if both_sides s then 2 * entry near i - entry (class_totals s) i else entry near i).

Fixpoint at_most (near totals : list Z) : bool :=
  match near, totals with
  | [], [] => true
  | x :: near', t :: totals' => (0 <=? x) && (x <=? t) && at_most near' totals'
  | _, _ => false
  end.

(** One list of scores for all classes, and then one comparison per class. *)
Fixpoint scores (both : bool) (sizes totals near : list Z) : list Z :=
  match sizes, totals, near with
  | n :: sizes', t :: totals', x :: near' => n + (if both then 2 * x - t else x) :: scores both sizes' totals' near'
  | _, _, _ => []
  end.

Fixpoint leads_at_least (r p for_p c : Z) (l : list Z) : bool :=
  match l with
  | [] => true
  | f :: rest => ((c =? p) || (r <=? for_p - f - one_if (c <? p))) && leads_at_least r p for_p (c + 1) rest
  end.

Definition valid_ballots (s : ballot_setting) (near : list Z) : bool :=
  at_most near (class_totals s) && (sum (fun _ => 1) near =? ballot_classes s)
  && (sum (fun _ => 1) (class_sizes s) =? ballot_classes s).

Definition check_ballots (s : ballot_setting) (near : list Z) (p r : Z) : bool :=
  let all := scores (both_sides s) (class_sizes s) (class_totals s) near in
  let for_p := entry all (Z.to_nat p) in
  valid_ballots s near && (0 <=? p) && (p <? ballot_classes s) && (0 <=? r)
  && leads_at_least r p for_p 0 all
  && match ballot_labels s with
     | Declared => true
     | Inferred => (r <=? 0) || (r <=? for_p - 1)
     end.

Lemma leads_at_least_spec r p for_p : forall l c,
  leads_at_least r p for_p c l = true <->
  (forall i, (i < length l)%nat -> c + Z.of_nat i <> p ->
     r <= for_p - entry l i - one_if (c + Z.of_nat i <? p)).
Proof.
  unfold entry. induction l as [|f l IH]; intros c; cbn [leads_at_least length].
  - split; [intros _ i I; lia|reflexivity].
  - rewrite andb_true_iff, orb_true_iff, IH, Z.eqb_eq, Z.leb_le. split.
    + intros [A B] i I N. destruct i; cbn [nth].
      * rewrite Z.add_0_r in *. lia.
      * replace (c + Z.of_nat (S i)) with (c + 1 + Z.of_nat i) in * by lia. apply B; lia.
    + intros A. split.
      * specialize (A 0%nat ltac:(lia)). rewrite Z.add_0_r in A. cbn [nth] in A.
        destruct (Z.eq_dec c p); [left; assumption|right; auto].
      * intros i I N. specialize (A (S i) ltac:(lia)). cbn [nth] in A.
        replace (c + Z.of_nat (S i)) with (c + 1 + Z.of_nat i) in A by lia. auto.
Qed.

Lemma entry_scores both : forall sizes totals near i,
  length totals = length sizes -> length near = length sizes -> (i < length sizes)%nat ->
  entry (scores both sizes totals near) i
  = entry sizes i + (if both then 2 * entry near i - entry totals i else entry near i).
Proof.
  unfold entry. induction sizes as [|n sizes IH]; intros [|t totals] [|x near] i T N I; simpl in *; try discriminate; try lia.
  destruct i; [reflexivity|]. apply IH; lia.
Qed.

Lemma length_scores both : forall sizes totals near,
  length totals = length sizes -> length near = length sizes -> length (scores both sizes totals near) = length sizes.
Proof.
  induction sizes as [|n sizes IH]; intros [|t totals] [|x near] T N; simpl in *; try discriminate; try reflexivity.
  rewrite IH; lia.
Qed.

Lemma at_most_length : forall near totals, at_most near totals = true -> length totals = length near.
Proof.
  induction near as [|x near IH]; intros [|t totals] E; cbn [at_most] in E; try discriminate; [reflexivity|].
  apply andb_true_iff in E. destruct E as [_ E]. cbn [length]. f_equal. auto.
Qed.

(** What is shown of the training set D: how many samples of each class there are, and how many of them are near. *)
Definition shown_truly {sample : Type} (label : sample -> Z) (near : sample -> bool) (s : ballot_setting)
  (counted : list Z) (D : list sample) : Prop :=
  forall c, 0 <= c < ballot_classes s ->
    entry counted (Z.to_nat c) = sum (fun x => one_if (label x =? c) * one_if (near x)) D
    /\ entry (class_totals s) (Z.to_nat c) = sum (fun x => one_if (label x =? c)) D.

Definition rule {sample : Type} (s : ballot_setting) (near : sample -> bool) : sample -> Z :=
  if both_sides s then two_sided near else one_sided near.

(** Declared sizes of known classes; an invented class has none. *)
Definition declared_size (s : ballot_setting) (c : Z) : Z := if c <? 0 then 0 else entry (class_sizes s) (Z.to_nat c).

Section Checked.
  Context {sample : Type}.
  Variables (label : sample -> Z) (near : sample -> bool) (s : ballot_setting) (counted : list Z) (D : list sample).
  Hypothesis SHOWN : shown_truly label near s counted D.
  Hypothesis KNOWN : forall x, In x D -> 0 <= label x.

  Let F := score label (rule s near) (declared_size s) D.

  Lemma score_shown c : 0 <= c < ballot_classes s -> F c = score_of s counted c.
  Proof.
    intros C. unfold F, score, score_of, declared_size, rule. destruct (SHOWN c C) as [-> ->].
    destruct (Z.ltb_spec c 0); [lia|]. f_equal. destruct (both_sides s).
    - rewrite <- sum_scaled, <- sum_minus. apply sum_ext. intros x _. unfold two_sided.
      destruct (label x =? c), (near x); cbn [one_if]; lia.
    - apply sum_ext. intros x _. reflexivity.
  Qed.

  Lemma score_invented c : c < 0 -> F c = 0.
  Proof.
    intros C. unfold F, score, declared_size. destruct (Z.ltb_spec c 0); [|lia].
    rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
    intros x X. specialize (KNOWN x X). destruct (Z.eqb_spec (label x) c); [lia|]. cbn [one_if]. lia.
  Qed.

  Lemma check_ballots_spec p r : check_ballots s counted p r = true ->
    0 <= p < ballot_classes s /\ 0 <= r /\
    forall c, possible_rival (ballot_labels s) (ballot_classes s) r c -> c <> p ->
      r <= ballot_lead label (rule s near) (declared_size s) D p c.
  Proof.
    unfold check_ballots. intros C.
    apply andb_true_iff in C. destruct C as [C NEW]. apply andb_true_iff in C. destruct C as [C LEADS].
    apply andb_true_iff in C. destruct C as [C R]. apply andb_true_iff in C. destruct C as [C PK].
    apply andb_true_iff in C. destruct C as [V P0].
    apply Z.leb_le in R. apply Z.ltb_lt in PK. apply Z.leb_le in P0.
    unfold valid_ballots in V. apply andb_true_iff in V. destruct V as [V V3]. apply andb_true_iff in V.
    destruct V as [V1 V2]. apply Z.eqb_eq in V2. apply Z.eqb_eq in V3. apply at_most_length in V1.
    rewrite sum_constant in V2, V3. unfold size in V2, V3.
    assert (N : length counted = length (class_sizes s)) by lia.
    assert (T : length (class_totals s) = length (class_sizes s)) by lia.
    assert (ALL : forall c, 0 <= c < ballot_classes s ->
              entry (scores (both_sides s) (class_sizes s) (class_totals s) counted) (Z.to_nat c) = F c).
    { intros c CK. rewrite entry_scores by lia. rewrite score_shown by assumption. reflexivity. }
    split; [lia|]. split; [assumption|]. intros c [CK Q] NE. unfold ballot_lead. fold F.
    destruct (Z_lt_le_dec c 0) as [NEG|POS].
    - destruct Q as [Q|[INF Q]]; [lia|]. rewrite INF in NEW. apply orb_true_iff in NEW.
      destruct NEW as [NEW|NEW]; apply Z.leb_le in NEW; [lia|]. rewrite ALL in NEW by lia.
      rewrite (score_invented c NEG). destruct (Z.ltb_spec c p); [|lia]. cbn [one_if]. lia.
    - rewrite leads_at_least_spec in LEADS. specialize (LEADS (Z.to_nat c)). rewrite length_scores in LEADS by lia.
      replace (0 + Z.of_nat (Z.to_nat c)) with c in LEADS by lia. specialize (LEADS ltac:(lia) NE).
      rewrite !ALL in LEADS by lia. assumption.
  Qed.

  (** What the checker accepts is true of training sets. *)
  Theorem check_ballots_sound p r D' :
    check_ballots s counted p r = true -> within r D D' ->
    elects label (rule s near) (declared_size s) (ballot_labels s) (ballot_classes s) D' p.
  Proof.
    intros C NEAR. destruct (check_ballots_spec p r C) as (P & R & M).
    apply (ballots_sound label (rule s near) (declared_size s)) with (D := D) (r := r); auto.
    - intros x. unfold rule. destruct (both_sides s); [apply two_sided_bounds|apply one_sided_bounds].
    - split; [assumption|]. intros c C' N.
      assert (0 <= c < ballot_classes s).
      { unfold stands in C'. destruct (ballot_labels s); [assumption|]. destruct C' as [CK [CP|(x & X & E)]]; [lia|].
        specialize (KNOWN x X). lia. }
      specialize (M c ltac:(split; lia) N). lia.
  Qed.

  (** And what it refuses, though counts and claim are in order, is false: the radius is exact. *)
  Theorem check_ballots_complete p r :
    valid_ballots s counted = true -> 0 <= p < ballot_classes s -> 0 <= r ->
    (forall c, exists x, label x = c /\ near x = true) ->
    (forall D', within r D D' -> elects label (rule s near) (declared_size s) (ballot_labels s) (ballot_classes s) D' p) ->
    check_ballots s counted p r = true.
  Proof.
    intros V P R NEAR ALL.
    assert (E : elects label (rule s near) (declared_size s) (ballot_labels s) (ballot_classes s) D p).
    { apply ALL. exists D, [], []. rewrite app_nil_r. unfold size. simpl. repeat split; auto. }
    assert (B : forall x, -1 <= rule s near x <= 1).
    { intros x. unfold rule. destruct (both_sides s); [apply two_sided_bounds|apply one_sided_bounds]. }
    assert (ONE : forall c, exists x, label x = c /\ rule s near x = 1).
    { intros c. destruct (NEAR c) as (x & X & Y). exists x. split; [assumption|].
      unfold rule. destruct (both_sides s); unfold two_sided, one_sided; rewrite Y; reflexivity. }
    pose proof (proj1 (ballots_radius label (rule s near) (declared_size s) B (ballot_labels s) (ballot_classes s) D p r R E ONE)
                  ALL) as M.
    unfold check_ballots. rewrite V. unfold valid_ballots in V. apply andb_true_iff in V. destruct V as [V V3].
    apply andb_true_iff in V. destruct V as [V1 V2]. apply Z.eqb_eq in V2. apply Z.eqb_eq in V3.
    apply at_most_length in V1. rewrite sum_constant in V2, V3. unfold size in V2, V3.
    assert (ALLF : forall c, 0 <= c < ballot_classes s ->
              entry (scores (both_sides s) (class_sizes s) (class_totals s) counted) (Z.to_nat c) = F c).
    { intros c CK. rewrite entry_scores by lia. rewrite score_shown by assumption. reflexivity. }
    destruct (Z.leb_spec 0 p); [|lia]. destruct (Z.ltb_spec p (ballot_classes s)); [|lia].
    destruct (Z.leb_spec 0 r); [|lia]. cbn [andb]. apply andb_true_iff. split.
    - apply leads_at_least_spec. rewrite length_scores by lia. intros i I N. rewrite Z.add_0_l in *.
      assert (CI : 0 <= Z.of_nat i < ballot_classes s) by lia.
      specialize (M (Z.of_nat i) ltac:(split; lia) N). unfold ballot_lead in M. fold F in M.
      pose proof (ALLF (Z.of_nat i) CI) as A. rewrite Nat2Z.id in A. rewrite A, ALLF by lia. assumption.
    - destruct (ballot_labels s) eqn:L; [reflexivity|]. destruct (Z.leb_spec r 0); [reflexivity|]. cbn [orb].
      apply Z.leb_le. specialize (M (-1) ltac:(split; [lia|right; split; [reflexivity|lia]]) ltac:(lia)).
      unfold ballot_lead in M. fold F in M. rewrite (score_invented (-1)) in M by lia. rewrite ALLF by lia.
      destruct (Z.ltb_spec (-1) p); [|lia]. cbn [one_if] in M. lia.
  Qed.
End Checked.
