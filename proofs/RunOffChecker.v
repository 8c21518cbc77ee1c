(** The checker of one test sample under run-off election, for declared classes, and what its yes means.

    [check_run_off] is extracted as it stands. It is handed the rankings of all members, the elected class, the radius
    that is claimed, and multipliers with a bound for every way in which the election could turn; nothing of that is
    trusted. *)

From Coq Require Import ZArith List Lia Bool Permutation.
From Poisonproof Require Import Sums Votes Cover Theorem2 Training Lists Spreads Trees Groups Checker RunOff.
Import ListNotations.
Open Scope Z_scope.

(** How a cover is bounded: by the r largest sums over partitions, or by the r d largest weights of members. *)
Inductive limit :=
| ByPartitions (t : Z)
| ByMembers (t : Z).

(** Two classes that could push the elected one out of round 1: multipliers of "a is raised above it" and "b is". *)
Record pushed := Pushed { first : Z; second : Z; of_first : Z; of_second : Z; pushed_limit : limit }.

(** A class that could beat it in round 2: the multiplier of that, and those of classes that it must stand above. *)
Record beaten := Beaten { by_class : Z; of_duel : Z; of_others : list (Z * Z); beaten_limit : limit }.

Record run_off_claim := RunOffClaim { elected : Z; withstood : Z; round_1 : list pushed; round_2 : list beaten }.

(** A ranking is a list of classes, the first the best; a member that abstains ranks none, and votes K. *)
Definition vote_of (K : Z) (r : list Z) : Z := match r with [] => K | x :: _ => x end.

Fixpoint above (a b : Z) (r : list Z) : bool :=
  match r with
  | [] => false
  | x :: rest => if x =? a then true else if x =? b then false else above a b rest
  end.

(** The most members that one partition reaches. *)
Definition degree (sp : spread_data) : Z :=
  fold_right Z.max 0 (sums (prepare sp) (map (fun _ => 1) (range (Z.of_nat (n_members sp))))).

Definition bound_by (s : setting) (r : Z) (w : list Z) (l : limit) : Z :=
  match l with
  | ByPartitions t => r * t + excess t (sums (the_prepared s) w) (may_be_poisoned s)
  | ByMembers t => r * degree (the_spread s) * t + sum (fun x => Z.max 0 (x - t)) w
  end.

Definition valid_limit (l : limit) : bool := match l with ByPartitions t => 0 <=? t | ByMembers t => 0 <=? t end.

Definition weight_of (x p c : Z) : Z := 1 + one_if (x =? p) - one_if (x =? c).

Definition shown_lead (K : Z) (rankings : list (list Z)) (p c : Z) : Z :=
  sum (fun r => one_if (vote_of K r =? p)) rankings - sum (fun r => one_if (vote_of K r =? c)) rankings - one_if (c <? p).

Definition shown_duel (rankings : list (list Z)) (p c : Z) : Z :=
  sum (fun r => one_if (above p c r) - one_if (above c p r)) rankings - one_if (c <? p).

Definition pushed_weights (K : Z) (rankings : list (list Z)) (p : Z) (q : pushed) : list Z :=
  map (fun r => let x := vote_of K r in
                Z.max (of_first q) (of_second q) + (of_first q + of_second q) * one_if (x =? p)
                - of_first q * one_if (x =? first q) - of_second q * one_if (x =? second q)) rankings.

Definition beaten_weights (K : Z) (rankings : list (list Z)) (p : Z) (q : beaten) : list Z :=
  map (fun r => of_duel q * (1 + one_if (above p (by_class q) r) - one_if (above (by_class q) p r))
                + 1 * sum (fun xl => snd xl * weight_of (vote_of K r) (fst xl) (by_class q)) (of_others q))
      rankings.

Definition check_pushed (s : setting) (rankings : list (list Z)) (p r a b : Z) (q : pushed) : bool :=
  (first q =? a) && (second q =? b) && (0 <=? of_first q) && (0 <=? of_second q) && valid_limit (pushed_limit q)
  && (bound_by s r (pushed_weights (n_classes s) rankings p q) (pushed_limit q)
      <? of_first q * (shown_lead (n_classes s) rankings p a + 1) + of_second q * (shown_lead (n_classes s) rankings p b + 1)).

Definition check_beaten (s : setting) (rankings : list (list Z)) (p r c : Z) (q : beaten) : bool :=
  (by_class q =? c) && (0 <=? of_duel q) && valid_limit (beaten_limit q)
  && forallb (fun xl => (0 <=? snd xl) && (0 <=? fst xl) && (fst xl <? n_classes s)
                        && negb (fst xl =? p) && negb (fst xl =? c)) (of_others q)
  && (bound_by s r (beaten_weights (n_classes s) rankings p q) (beaten_limit q)
      <? of_duel q * (shown_duel rankings p c + 1)
         + sum (fun xl => snd xl * (shown_lead (n_classes s) rankings (fst xl) c + 1)) (of_others q)).

(** Rankings are of all members, and name classes. *)
Definition valid_rankings (s : setting) (rankings : list (list Z)) : bool :=
  (sum (fun _ => 1) rankings =? Z.of_nat (n_members (the_spread s)))
  && forallb (forallb (fun x => (0 <=? x) && (x <? n_classes s))) rankings.

Definition valid_run_off (s : setting) (q : run_off_claim) : bool :=
  (0 <=? elected q) && (elected q <? n_classes s) && (0 <=? withstood q).

Definition check_run_off (s : setting) (rankings : list (list Z)) (q : run_off_claim) : bool :=
  let p := elected q in
  valid_rankings s rankings && valid_run_off s q
  && forallb (fun a => (a =? p)
       || forallb (fun b => (b <=? a) || (b =? p) || existsb (check_pushed s rankings p (withstood q) a b) (round_1 q))
            (range (n_classes s))) (range (n_classes s))
  && forallb (fun c => (c =? p) || existsb (check_beaten s rankings p (withstood q) c) (round_2 q)) (range (n_classes s)).

(** * Proofs *)

Definition ranking_at (rankings : list (list Z)) (i : nat) : list Z := nth i rankings [].
Definition first_choice (K : Z) (ranked : nat -> list Z) (i : nat) : Z := vote_of K (ranked i).
Definition ranks (ranked : nat -> list Z) : ranking := fun i a b => above a b (ranked i).

Lemma sum_of_members {A : Type} (f : A -> Z) (d : A) l : sum (fun i => f (nth i l d)) (members (length l)) = sum f l.
Proof.
  unfold members. rewrite <- (sum_of_map f (fun i => nth i l d)). f_equal.
  induction l as [|x l IH]; [reflexivity|]. cbn [length seq map nth]. f_equal.
  rewrite <- seq_shift, map_map. assumption.
Qed.

Lemma entry_of_map {A : Type} (f : A -> Z) (d : A) l i : (i < length l)%nat -> entry (map f l) i = f (nth i l d).
Proof. intros I. unfold entry. rewrite (nth_indep _ 0 (f d)) by (rewrite map_length; assumption). apply map_nth. Qed.

Section Sound.
  Variables (K : Z) (sp : spread_data) (allowed : list bool) (grouped : option (Z * bool * list (list bool))).
  Let s := make_setting Declared K sp allowed grouped.
  Hypothesis V : valid_spread sp = true.
  Let n := n_members sp.
  Let Q := allowed_partitions sp allowed.

  Lemma degree_bounds j : In j Q -> 0 <= degree sp /\ reached n (reach_of sp) (fun _ => 1) j <= degree sp.
  Proof.
    intros J. apply filter_In in J. destruct J as [J _]. apply in_seq in J.
    set (ones := map (fun _ : Z => 1) (range (Z.of_nat (n_members sp)))).
    assert (E : length ones = n_members sp) by (unfold ones; rewrite map_length, length_range; lia).
    assert (one : forall i, (i < n_members sp)%nat -> entry ones i = 1).
    { intros i I. unfold ones. rewrite (entry_of_map _ 0) by (rewrite length_range; lia). reflexivity. }
    pose proof (reached_at_most_sum sp ones j V E ltac:(lia) ltac:(intros i I; rewrite (one i I); lia)) as R.
    assert (M : forall l, 0 <= fold_right Z.max 0 l /\ forall x, In x l -> x <= fold_right Z.max 0 l).
    { induction l as [|y l [A B]]; cbn [fold_right]; [split; [lia|intros x []]|].
      split; [lia|]. intros x [->|X]; [lia|]. specialize (B x X). lia. }
    unfold degree. fold ones. destruct (M (sums (prepare sp) ones)) as [A B]. split; [assumption|].
    assert (IN : In (entry (sums (prepare sp) ones) j) (sums (prepare sp) ones)).
    { apply entry_in. rewrite length_sums by exact E. lia. }
    specialize (B _ IN).
    replace (reached n (reach_of sp) (fun _ => 1) j) with (reached n (reach_of sp) (entry ones) j); [unfold n; lia|].
    unfold reached. apply sum_ext. intros i I. apply in_members in I. rewrite one by assumption. reflexivity.
  Qed.

  Lemma bound_by_sound w l r :
    length w = n -> (forall i, (i < n)%nat -> 0 <= entry w i) -> 0 <= r -> valid_limit l = true ->
    bounded n (reach_of sp) (entry w) Q r (bound_by s r w l).
  Proof.
    intros E W R L. destruct l as [t|t]; cbn [valid_limit bound_by] in *; apply Z.leb_le in L.
    - pose proof (largest_of_list sp allowed w r t V E W L).
      apply bounded_below_bound with (w' := entry w) (B' := largest n (reach_of sp) (entry w) Q r t).
      + intros. lia.
      + cbn [s make_setting the_prepared may_be_poisoned]. unfold n, Q. lia.
      + apply largest_bounds; auto.
    - cbn [s make_setting the_spread].
      assert (D : 0 <= degree sp).
      { unfold degree. generalize (sums (prepare sp) (map (fun _ : Z => 1) (range (Z.of_nat (n_members sp))))).
        intros x. induction x; cbn [fold_right]; lia. }
      apply bounded_below_bound with (w' := entry w)
        (B' := r * degree sp * t + sum (fun i => positive_part (entry w i - t)) (members n)).
      + intros. lia.
      + rewrite <- E, (sum_of_entries (fun x => positive_part (x - t)) w). unfold positive_part. lia.
      + apply bounded_by_members; auto. intros j J. apply (degree_bounds j J).
  Qed.

  Lemma weight_of_bounds x p c : p <> c -> 0 <= weight_of x p c <= 2.
  Proof. intros N. unfold weight_of, one_if. destruct (Z.eqb_spec x p), (Z.eqb_spec x c); lia. Qed.

  Section Rankings.
    Variable rankings : list (list Z).
    Hypothesis E : length rankings = n.
    Let ranked := ranking_at rankings.
    Let v := first_choice K ranked.

    Lemma shown_lead_is_lead p c : shown_lead K rankings p c = lead n v p c.
    Proof.
      unfold shown_lead, lead, count, v, first_choice, ranked, ranking_at. rewrite <- E.
      rewrite (sum_of_members (fun r => one_if (vote_of K r =? p))), (sum_of_members (fun r => one_if (vote_of K r =? c))).
      reflexivity.
    Qed.

    Lemma shown_duel_is_duel p c : shown_duel rankings p c = duel n (ranks ranked) p c.
    Proof.
      unfold shown_duel, duel, ranks, ranked, ranking_at. rewrite <- E.
      rewrite (sum_of_members (fun r => one_if (above p c r) - one_if (above c p r))). reflexivity.
    Qed.

    (** What the checker accepts is true of rankings: whatever the members reached by at most [withstood] of the
        partitions that may be poisoned rank, the same class is elected. *)
    Theorem check_run_off_sound q :
      check_run_off s rankings q = true ->
      forall H ranked', incl H Q -> size H <= withstood q ->
      poisoned n (reach_of sp) H ranked ranked' ->
      wins_run_off K n (first_choice K ranked') (ranks ranked') (elected q).
    Proof.
      intros C H ranked' I S PO. unfold check_run_off in C.
      apply andb_true_iff in C. destruct C as [C R2]. apply andb_true_iff in C. destruct C as [C R1].
      apply andb_true_iff in C. destruct C as [_ VC]. unfold valid_run_off in VC.
      apply andb_true_iff in VC. destruct VC as [VC R0]. apply andb_true_iff in VC. destruct VC as [P0 P1].
      apply Z.leb_le in P0, R0. apply Z.ltb_lt in P1. rewrite forallb_forall in R1, R2.
      cbn [s make_setting n_classes] in R1, R2, P1. fold s in R1, R2. set (p := elected q) in *.
      assert (pair : forall a b, 0 <= a < K -> 0 <= b < K -> a < b -> a <> p -> b <> p ->
        exists la lb B, 0 <= la /\ 0 <= lb /\
          bounded n (reach_of sp) (pair_weight v p a b la lb) Q (withstood q) B /\
          B < la * (lead n v p a + 1) + lb * (lead n v p b + 1)).
      { intros a b A B AB AP BP. specialize (R1 a (proj2 (in_range K a) A)).
        apply orb_true_iff in R1. destruct R1 as [F|R1]; [apply Z.eqb_eq in F; contradiction|].
        rewrite forallb_forall in R1. specialize (R1 b (proj2 (in_range K b) B)).
        apply orb_true_iff in R1. destruct R1 as [F|R1].
        { apply orb_true_iff in F. destruct F as [F|F]; [apply Z.leb_le in F; lia|apply Z.eqb_eq in F; contradiction]. }
        apply existsb_exists in R1. destruct R1 as (u & _ & CH). unfold check_pushed in CH.
        repeat (apply andb_true_iff in CH; let X := fresh "X" in destruct CH as [CH X]).
        apply Z.eqb_eq in CH, X3. apply Z.leb_le in X2, X1. apply Z.ltb_lt in X.
        rewrite !shown_lead_is_lead in X.
        exists (of_first u), (of_second u), (bound_by s (withstood q) (pushed_weights K rankings p u) (pushed_limit u)).
        repeat split; auto.
        assert (same : forall i, (i < n)%nat ->
                  entry (pushed_weights K rankings p u) i = pair_weight v p a b (of_first u) (of_second u) i).
        { intros i IN. unfold pushed_weights. rewrite (entry_of_map _ []) by (rewrite E; assumption).
          rewrite CH, X3. reflexivity. }
        apply bounded_below_bound with (w' := entry (pushed_weights K rankings p u))
          (B' := bound_by s (withstood q) (pushed_weights K rankings p u) (pushed_limit u)); [|lia|].
        - intros i IN. rewrite same by assumption. lia.
        - apply bound_by_sound; auto.
          + unfold pushed_weights. rewrite map_length. assumption.
          + intros i IN. rewrite same by assumption. apply pair_weight_nonnegative; auto. lia. }
      apply (run_off_sound K n (reach_of sp) v (first_choice K ranked') (ranks ranked) (ranks ranked') p Q (withstood q) H);
        auto.
      - intros a b A B AB AP BP. destruct (Z_lt_le_dec a b) as [LT|GE]; [apply pair; auto|].
        destruct (pair b a B A ltac:(lia) BP AP) as (lb & la & most & LB & LA & BOUND & LESS).
        exists la, lb, most. repeat split; auto; [|lia].
        apply bounded_below_bound with (w' := pair_weight v p b a lb la) (B' := most); auto; [|lia].
        intros i _. unfold pair_weight. lia.
      - intros c CK CP. specialize (R2 c (proj2 (in_range K c) CK)).
        apply orb_true_iff in R2. destruct R2 as [F|R2]; [apply Z.eqb_eq in F; contradiction|].
        apply existsb_exists in R2. destruct R2 as (u & _ & CH). unfold check_beaten in CH.
        repeat (apply andb_true_iff in CH; let X := fresh "X" in destruct CH as [CH X]).
        apply Z.eqb_eq in CH. apply Z.leb_le in X2. apply Z.ltb_lt in X. rewrite shown_duel_is_duel in X.
        cbn [s make_setting n_classes] in X, X0. fold s in X.
        rewrite (sum_ext (fun xl => snd xl * (shown_lead K rankings (fst xl) c + 1))
                   (fun xl => snd xl * (lead n v (fst xl) c + 1))) in X
          by (intros; rewrite shown_lead_is_lead; reflexivity).
        assert (others : forall x lx, In (x, lx) (of_others u) -> 0 <= lx /\ 0 <= x < K /\ x <> p /\ x <> c).
        { intros x lx IN. rewrite forallb_forall in X0. specialize (X0 (x, lx) IN). cbn [fst snd] in X0.
          repeat (apply andb_true_iff in X0; let Y := fresh "Y" in destruct X0 as [X0 Y]).
          apply Z.leb_le in X0, Y2. apply Z.ltb_lt in Y1. apply negb_true_iff in Y, Y0. apply Z.eqb_neq in Y, Y0.
          repeat split; auto. }
        exists (of_duel u), (of_others u), (bound_by s (withstood q) (beaten_weights K rankings p u) (beaten_limit u)).
        repeat split; auto; try (apply (others x lx); assumption).
        assert (same : forall i, (i < n)%nat ->
                  entry (beaten_weights K rankings p u) i
                  = of_duel u * duel_weight (ranks ranked) p c i + 1 * combined v c (of_others u) i).
        { intros i IN. unfold beaten_weights. rewrite (entry_of_map _ []) by (rewrite E; assumption).
          rewrite CH. reflexivity. }
        apply bounded_below_bound with (w' := entry (beaten_weights K rankings p u))
          (B' := bound_by s (withstood q) (beaten_weights K rankings p u) (beaten_limit u)); [|lia|].
        + intros i IN. rewrite same by assumption. lia.
        + apply bound_by_sound; auto.
          * unfold beaten_weights. rewrite map_length. assumption.
          * intros i IN. rewrite same by assumption.
            assert (0 <= duel_weight (ranks ranked) p c i)
              by (unfold duel_weight; destruct (ranks ranked i p c), (ranks ranked i c p); simpl; lia).
            assert (0 <= combined v c (of_others u) i).
            { apply sum_nonnegative. intros (x & lx) XL. destruct (others x lx XL) as (LX & _ & _ & XC). cbn [fst snd].
              pose proof (weight_bounds v x c i XC). nia. }
            nia.
      - intros i IN T. unfold v, first_choice. rewrite (PO i IN T). reflexivity.
      - intros i IN T. unfold ranks. rewrite (PO i IN T). reflexivity.
    Qed.
  End Rankings.
End Sound.

(** * From training sets to elections

    As [end_to_end] for members that rank the classes: if the checker, shown the rankings of D on a test sample, accepts
    the elected class p with radius r, then on every D' within r insertions and removals p is elected too. *)
Theorem end_to_end_run_off
  (sample : Type) (K : Z) (sp : spread_data) (grouped : option (Z * bool * list (list bool)))
  (split : sample -> nat) (learn : nat -> list sample -> list Z) (D D' : list sample) (shown : list (list Z))
  (q : run_off_claim) :
  valid_spread sp = true ->
  (forall s, (split s < n_partitions sp)%nat) ->
  pure learn ->
  (forall i, (i < n_members sp)%nat -> ranking_at shown i = votes (reach_of sp) split learn D i) ->
  check_run_off (make_setting Declared K sp (everything sp) grouped) shown q = true ->
  within (withstood q) D D' ->
  wins_run_off K (n_members sp) (first_choice K (votes (reach_of sp) split learn D'))
    (ranks (votes (reach_of sp) split learn D')) (elected q).
Proof.
  intros V SPLIT PURE SHOWN C NEAR.
  destruct (attack_on_data_is_attack_on_partitions (n_members sp) (n_partitions sp) (reach_of sp) split SPLIT learn
              (withstood q) D D' PURE NEAR) as (H & S & I & PO).
  assert (E : length shown = n_members sp).
  { unfold check_run_off, valid_rankings in C. repeat (apply andb_true_iff in C; destruct C as [C _]).
    apply Z.eqb_eq in C. cbn [make_setting the_spread] in C. rewrite length_as_sum in C. lia. }
  apply (check_run_off_sound K sp (everything sp) grouped V shown E q C H); auto.
  - intros j J. apply everything_allowed. auto.
  - intros i IN T. rewrite SHOWN by assumption. apply PO; assumption.
Qed.
