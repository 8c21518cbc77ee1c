(** The checker of one test sample, and the theorem that an auditor relies on.

    [check_sample] is extracted to OCaml as it stands. It is handed the votes of all members on one test sample, the
    prediction and the radius that are claimed, and hints: thresholds and proof trees, none of which is trusted. *)

From Coq Require Import ZArith List Lia Bool Permutation.
From Poisonproof Require Import Sums Votes Cover Theorem2 Training Tight Lists Spreads Trees Grouped Groups GroupsSound.
Import ListNotations.
Open Scope Z_scope.

(** What may be said against one rival. *)
Inductive hint :=
| ByTree (tree : proof)
| ByGroups (found : list searched).

(** The threshold that serves for all rivals at once, and hints against those for which it is not enough. The code of
    an invented class is -1. *)
Record claim := Claim { prediction : Z; radius : Z; threshold : Z; hints : list (Z * hint) }.

(** Everything that is the same for all test samples. *)
Record setting := Setting {
  class_labels : labels;
  n_classes : Z;
  the_spread : spread_data;
  the_prepared : prepared;
  may_be_poisoned : list bool;
  the_grouping : option grouping
}.

Definition make_setting (L : labels) (K : Z) (sp : spread_data) (allowed : list bool)
  (grouped : option (Z * bool * list (list bool))) : setting :=
  Setting L K sp (prepare sp) allowed
    match grouped with
    | Some (overlap, one, chosen) => make_grouping sp overlap one chosen
    | None => None
    end.

Fixpoint find_hint (c : Z) (l : list (Z * hint)) : option hint :=
  match l with
  | [] => None
  | (c', h) :: rest => if c' =? c then Some h else find_hint c rest
  end.

Definition votes_for (votes : list Z) (c : Z) : Z := sum (fun x => one_if (x =? c)) votes.

Definition weights (votes : list Z) (p c : Z) : list Z :=
  map (fun x => if x =? p then 2 else if x =? c then 0 else 1) votes.

(** Votes are classes, or the number of classes for an abstention. *)
Definition valid_votes (s : setting) (votes : list Z) : bool :=
  (sum (fun _ => 1) votes =? Z.of_nat (n_members (the_spread s)))
  && forallb (fun x => (0 <=? x) && (x <=? n_classes s)) votes.

Definition valid_claim (s : setting) (q : claim) : bool :=
  (0 <=? prediction q) && (prediction q <? n_classes s) && (0 <=? radius q).

(** Against rival c: the common bound is within the lead, or a hint proves it. *)
Definition check_rival (s : setting) (votes : list Z) (q : claim) (for_p common : Z) (c : Z) : bool :=
  let lead := for_p - votes_for votes c - one_if (c <? prediction q) in
  (common <=? lead)
  || match find_hint c (hints q) with
     | Some (ByTree tree) =>
         proves (the_spread s) (the_prepared s) (may_be_poisoned s) (radius q) lead (weights votes (prediction q) c) tree
     | Some (ByGroups found) =>
         match the_grouping s with
         | Some gr => grouped_proves (the_spread s) (the_prepared s) gr (may_be_poisoned s) (radius q) lead
                        (weights votes (prediction q) c) found
         | None => false
         end
     | None => false
     end.

Definition check_sample (s : setting) (votes : list Z) (q : claim) : bool :=
  let p := prediction q in
  let for_p := votes_for votes p in
  (* No class has larger weights than one without votes, so a bound for it holds against every rival. *)
  let common := radius q * threshold q + excess (threshold q) (sums (the_prepared s) (weights votes p (-1))) (may_be_poisoned s) in
  valid_votes s votes && valid_claim s q && (0 <=? threshold q)
  && forallb (fun c => (c =? p) || check_rival s votes q for_p common c) (range (n_classes s))
  && match class_labels s with
     | Declared => true
     | Inferred => (radius q <=? 0) || check_rival s votes q for_p common (-1)
     end.

(** * Proofs *)

Lemma length_as_sum {A : Type} (l : list A) : sum (fun _ => 1) l = Z.of_nat (length l).
Proof. rewrite sum_constant. unfold size. lia. Qed.

Lemma entry_weights votes p c i : p <> c -> (i < length votes)%nat ->
  entry (weights votes p c) i = weight (entry votes) p c i.
Proof.
  intros N I. unfold weights. rewrite entry_map by assumption. unfold weight, one_if.
  destruct (Z.eqb_spec (entry votes i) p), (Z.eqb_spec (entry votes i) c); lia.
Qed.

Lemma valid_votes_spec s votes : valid_votes s votes = true ->
  length votes = n_members (the_spread s) /\ forall i, (i < n_members (the_spread s))%nat -> 0 <= entry votes i.
Proof.
  intros E. unfold valid_votes in E. apply andb_true_iff in E. destruct E as [L F].
  apply Z.eqb_eq in L. rewrite length_as_sum in L. apply Nat2Z.inj in L. split; [assumption|].
  intros i I. rewrite forallb_forall in F. specialize (F (entry votes i)).
  assert (In (entry votes i) votes) by (apply entry_in; lia). specialize (F H). apply andb_true_iff in F. lia.
Qed.

Section Sound.
  Variables (L : labels) (K : Z) (sp : spread_data) (allowed : list bool) (grouped : option (Z * bool * list (list bool))).
  Let s := make_setting L K sp allowed grouped.
  Hypothesis V : valid_spread sp = true.
  Let n := n_members sp.
  Let Q := allowed_partitions sp allowed.

  Lemma check_rival_sound votes q c common :
    length votes = n -> (forall i, (i < n)%nat -> 0 <= entry votes i) ->
    0 <= prediction q -> c <> prediction q ->
    0 <= threshold q ->
    common = radius q * threshold q
             + excess (threshold q) (sums (prepare sp) (weights votes (prediction q) (-1))) allowed ->
    check_rival s votes q (votes_for votes (prediction q)) common c = true ->
    bounded n (reach_of sp) (weight (entry votes) (prediction q) c) Q (radius q) (lead n (entry votes) (prediction q) c).
  Proof.
    intros E P PR N T COMMON C. unfold check_rival in C.
    set (w := weights votes (prediction q) c) in *.
    assert (EW : length w = n_members sp) by (unfold w, weights; rewrite map_length; assumption).
    assert (WE : forall i, (i < n)%nat -> entry w i = weight (entry votes) (prediction q) c i)
      by (intros; apply entry_weights; [auto|rewrite E; assumption]).
    assert (W02 : forall i, (i < n_members sp)%nat -> 0 <= entry w i <= 2).
    { intros i I. rewrite WE by assumption. apply weight_bounds. auto. }
    assert (LEAD : votes_for votes (prediction q) - votes_for votes c - one_if (c <? prediction q)
                   = lead n (entry votes) (prediction q) c).
    { unfold lead, votes_for. rewrite <- E, !count_of_list. reflexivity. }
    rewrite LEAD in C.
    assert (step : forall B, bounded n (reach_of sp) (entry w) Q (radius q) B ->
                   bounded n (reach_of sp) (weight (entry votes) (prediction q) c) Q (radius q) B).
    { intros B F. apply bounded_below_bound with (w' := entry w) (B' := B); auto; [|lia].
      intros i I. rewrite WE by assumption. lia. }
    apply orb_true_iff in C. destruct C as [C|C].
    - apply Z.leb_le in C.
      set (w1 := weights votes (prediction q) (-1)) in *.
      assert (E1 : length w1 = n_members sp) by (unfold w1, weights; rewrite map_length; assumption).
      assert (WE1 : forall i, (i < n)%nat -> entry w1 i = weight (entry votes) (prediction q) (-1) i)
        by (intros; apply entry_weights; [lia|rewrite E; assumption]).
      assert (W1 : forall i, (i < n_members sp)%nat -> 0 <= entry w1 i).
      { intros i I. rewrite WE1 by assumption. apply weight_bounds. lia. }
      apply bounded_below_bound with (w' := entry w1) (B' := largest n (reach_of sp) (entry w1) Q (radius q) (threshold q)).
      + intros i I. rewrite WE1 by assumption. specialize (P i I). unfold weight.
        destruct (Z.eqb_spec (entry votes i) (-1)); [lia|]. pose proof (one_if_bounds (entry votes i =? c)).
        cbn [one_if]. lia.
      + pose proof (largest_of_list sp allowed w1 (radius q) (threshold q) V E1 W1 T). subst common. unfold n, Q in *. lia.
      + apply largest_bounds; auto.
    - destruct (find_hint c (hints q)) as [[tree|found]|]; [| |discriminate]; cbn [the_spread the_prepared may_be_poisoned the_grouping s make_setting] in C.
      + apply step. apply proves_sound with (tree := tree); auto. intros i I. specialize (W02 i I). lia.
      + destruct grouped as [[[overlap one] chosen]|]; [|discriminate].
        destruct (make_grouping sp overlap one chosen) as [gr|] eqn:G; [|discriminate].
        apply step. apply (grouped_proves_sound sp allowed (radius q) _ w found overlap one chosen gr); auto.
  Qed.

  (** What the checker accepts is true of votes: whatever votes the members reached by at most [radius] of the
      partitions that may be poisoned give, the prediction is the same. *)
  Theorem check_sample_sound votes q :
    check_sample s votes q = true ->
    forall H v', incl H Q -> size H <= radius q ->
    poisoned n (reach_of sp) H (entry votes) v' ->
    wins L K n v' (prediction q).
  Proof.
    intros C H v' I S PO. unfold check_sample in C.
    set (common := radius q * threshold q + _) in C.
    apply andb_true_iff in C. destruct C as [C NEW]. apply andb_true_iff in C. destruct C as [C KNOWN].
    apply andb_true_iff in C. destruct C as [C T]. apply andb_true_iff in C. destruct C as [C VC]. apply Z.leb_le in T.
    destruct (valid_votes_spec s votes C) as [E P]. cbn [s make_setting the_spread] in E, P. fold n in E, P.
    unfold valid_claim in VC. repeat (apply andb_true_iff in VC; destruct VC as [VC ?]).
    apply Z.leb_le in VC. apply Z.leb_le in H0. apply Z.ltb_lt in H1. cbn [s make_setting n_classes] in H1.
    assert (known : forall c, 0 <= c < K -> c <> prediction q ->
              bounded n (reach_of sp) (weight (entry votes) (prediction q) c) Q (radius q)
                (lead n (entry votes) (prediction q) c)).
    { intros c CK N. rewrite forallb_forall in KNOWN. specialize (KNOWN c). rewrite in_range in KNOWN.
      specialize (KNOWN CK). apply orb_true_iff in KNOWN. destruct KNOWN as [KN|KN]; [apply Z.eqb_eq in KN; lia|].
      apply (check_rival_sound votes q c common); auto. }
    assert (clean : wins L K n (entry votes) (prediction q)).
    { split; [lia|]. intros c CC N.
      assert (KC : 0 <= c < K).
      { destruct L; cbn in CC; [lia|]. destruct CC as [CK [CC|CC]]; [lia|].
        destruct (Z_lt_le_dec c 0); [|lia].
        assert (count n (entry votes) c = 0).
        { unfold count. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
          intros i IN. apply in_members in IN. specialize (P i IN). destruct (Z.eqb_spec (entry votes i) c); [lia|reflexivity]. }
        lia. }
      pose proof (known c KC N [] (NoDup_nil _) ltac:(intros x []) ltac:(unfold size; simpl; lia)) as Z0.
      rewrite cover_nil in Z0. assumption. }
    apply (prediction_stays n (reach_of sp) L K (entry votes) v' (prediction q) Q (radius q) H); auto.
    intros INF R c NEG. cbn [s make_setting class_labels] in NEW. rewrite INF in NEW.
    apply orb_true_iff in NEW. destruct NEW as [NEW|NEW]; [apply Z.leb_le in NEW; lia|].
    assert (B : bounded n (reach_of sp) (weight (entry votes) (prediction q) (-1)) Q (radius q)
                  (lead n (entry votes) (prediction q) (-1))).
    { apply (check_rival_sound votes q (-1) common); auto; lia. }
    (* All invented classes are alike: nobody votes for any of them yet. *)
    assert (none : forall i, (i < n)%nat -> forall d, d < 0 -> (entry votes i =? d) = false).
    { intros i IN d D. specialize (P i IN). apply Z.eqb_neq. lia. }
    apply bounded_below_bound with (w' := weight (entry votes) (prediction q) (-1))
                                   (B' := lead n (entry votes) (prediction q) (-1)); auto.
    - intros i IN. unfold weight. rewrite (none i IN c NEG), (none i IN (-1) ltac:(lia)). lia.
    - unfold lead. rewrite !(proj2 (Z.ltb_lt _ _)) by lia.
      assert (same : forall d, d < 0 -> count n (entry votes) d = 0).
      { intros d D. unfold count. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
        intros i IN. apply in_members in IN. rewrite none; auto. }
      rewrite (same c NEG), (same (-1) ltac:(lia)). lia.
  Qed.
End Sound.

(** Any partition may be poisoned. *)
Definition everything (sp : spread_data) : list bool := map (fun _ => true) (range (Z.of_nat (n_partitions sp))).

Lemma everything_allowed sp j : In j (seq 0 (n_partitions sp)) -> In j (allowed_partitions sp (everything sp)).
Proof.
  intros J. apply filter_In. split; [assumption|]. apply in_seq in J. unfold is_allowed, everything.
  rewrite (nth_indep _ false ((fun _ : Z => true) 0)) by (rewrite map_length, length_range; lia).
  exact (map_nth (fun _ : Z => true) (range (Z.of_nat (n_partitions sp))) 0 j).
Qed.

(** * The end-to-end theorem

    D is the training set that was used, D' any other within r insertions and removals; the members are pure functions
    of their subsets; the votes that the checker was shown are those of D. If the checker accepts prediction p with
    radius r, then the members trained on D' elect p too. *)
Theorem end_to_end
  (sample : Type) (L : labels) (K : Z) (sp : spread_data) (grouped : option (Z * bool * list (list bool)))
  (split : sample -> nat) (learn : nat -> list sample -> Z) (D D' : list sample) (shown : list Z) (q : claim) :
  valid_spread sp = true ->
  (forall s, (split s < n_partitions sp)%nat) ->
  pure learn ->
  (forall i, (i < n_members sp)%nat -> entry shown i = votes (reach_of sp) split learn D i) ->
  check_sample (make_setting L K sp (everything sp) grouped) shown q = true ->
  within (radius q) D D' ->
  wins L K (n_members sp) (votes (reach_of sp) split learn D') (prediction q).
Proof.
  intros V SPLIT PURE SHOWN C NEAR.
  destruct (attack_on_data_is_attack_on_partitions (n_members sp) (n_partitions sp) (reach_of sp) split SPLIT learn
              (radius q) D D' PURE NEAR) as (H & S & I & PO).
  apply (check_sample_sound L K sp (everything sp) grouped V shown q C H); auto.
  - intros j J. apply everything_allowed. auto.
  - intros i IN T. rewrite SHOWN by assumption. apply PO; assumption.
Qed.

(** The same if poisons fall only into partitions that may be poisoned (Theorem 4). *)
Theorem end_to_end_reachable
  (sample : Type) (L : labels) (K : Z) (sp : spread_data) (allowed : list bool)
  (grouped : option (Z * bool * list (list bool)))
  (split : sample -> nat) (learn : nat -> list sample -> Z) (D D' : list sample) (shown : list Z) (q : claim) :
  valid_spread sp = true ->
  pure learn ->
  (forall i, (i < n_members sp)%nat -> entry shown i = votes (reach_of sp) split learn D i) ->
  check_sample (make_setting L K sp allowed grouped) shown q = true ->
  (exists C R I, Permutation D (C ++ R) /\ Permutation D' (C ++ I) /\ size R + size I <= radius q /\
                 forall s, In s (R ++ I) -> In (split s) (allowed_partitions sp allowed)) ->
  wins L K (n_members sp) (votes (reach_of sp) split learn D') (prediction q).
Proof.
  intros V PURE SHOWN C NEAR.
  destruct (attack_on_reachable_data (n_members sp) (reach_of sp) split learn
              (radius q) D D' (allowed_partitions sp allowed) PURE NEAR) as (H & S & I & PO).
  apply (check_sample_sound L K sp allowed grouped V shown q C H); auto.
  intros i IN T. rewrite SHOWN by assumption. apply PO; assumption.
Qed.

(** Label flips, where the split does not look at labels: each counts one. *)
Theorem end_to_end_label_flips
  (sample : Type) (L : labels) (K : Z) (sp : spread_data) (grouped : option (Z * bool * list (list bool)))
  (split : sample -> nat) (learn : nat -> list sample -> Z) (D D' : list sample) (shown : list Z) (q : claim) :
  valid_spread sp = true ->
  (forall s, (split s < n_partitions sp)%nat) ->
  pure learn ->
  (forall i, (i < n_members sp)%nat -> entry shown i = votes (reach_of sp) split learn D i) ->
  check_sample (make_setting L K sp (everything sp) grouped) shown q = true ->
  flipped split (radius q) D D' ->
  wins L K (n_members sp) (votes (reach_of sp) split learn D') (prediction q).
Proof.
  intros V SPLIT PURE SHOWN C NEAR.
  destruct (flips_poison_one_partition_each (n_members sp) (n_partitions sp) (reach_of sp) split SPLIT learn
              (radius q) D D' PURE NEAR) as (H & S & I & PO).
  apply (check_sample_sound L K sp (everything sp) grouped V shown q C H); auto.
  - intros j J. apply everything_allowed. auto.
  - intros i IN T. rewrite SHOWN by assumption. apply PO; assumption.
Qed.

(** Modifications: each counts two. *)
Theorem end_to_end_modifications
  (sample : Type) (L : labels) (K : Z) (sp : spread_data) (grouped : option (Z * bool * list (list bool)))
  (split : sample -> nat) (learn : nat -> list sample -> Z) (D D' : list sample) (shown : list Z) (q : claim) (r : Z) :
  valid_spread sp = true ->
  (forall s, (split s < n_partitions sp)%nat) ->
  pure learn ->
  (forall i, (i < n_members sp)%nat -> entry shown i = votes (reach_of sp) split learn D i) ->
  check_sample (make_setting L K sp (everything sp) grouped) shown q = true ->
  2 * r <= radius q ->
  modified r D D' ->
  wins L K (n_members sp) (votes (reach_of sp) split learn D') (prediction q).
Proof.
  intros V SPLIT PURE SHOWN C R NEAR. eapply end_to_end; eauto.
  destruct (modification_counts_two r D D' NEAR) as (A & B & I & E & E' & S). exists A, B, I. repeat split; auto. lia.
Qed.
