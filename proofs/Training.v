(** From training sets to votes.

    A training set is a multiset of samples: a list, up to order. A sample is whatever one row with its label is. The
    split sends a sample to a partition by its own content alone; member i learns from the samples whose partition
    reaches it, and from nothing else. *)

From Coq Require Import ZArith List Lia Bool Permutation.
From Poisonproof Require Import Sums Votes Cover.
Import ListNotations.
Open Scope Z_scope.

Section Training.
  Context {sample : Type}.

  (** d_sym(D, D') <= r: D' is D less some samples (R) plus others (I), r in all. *)
  Definition within (r : Z) (D D' : list sample) : Prop :=
    exists C R I, Permutation D (C ++ R) /\ Permutation D' (C ++ I) /\ size R + size I <= r.

  Variable n : nat.                    (* members 0 ... n-1 *)
  Variable P : nat.                    (* partitions 0 ... P-1 *)
  Variable reach : spread.
  Variable split : sample -> nat.      (* the partition of a sample, from its own content *)
  Hypothesis split_in_range : forall s, (split s < P)%nat.

  (** The subset of member i. *)
  Definition subset (D : list sample) (i : nat) : list sample := filter (fun s => reach (split s) i) D.

  (** [learn i S] is the vote, on one fixed test sample, of member i trained on the subset S; or its ranking. *)
  Context {answer : Type}.
  Variable learn : nat -> list sample -> answer.

  (** Purity: a member is a function of its subset as a multiset; the order of rows does not matter. *)
  Definition pure : Prop := forall i S S', Permutation S S' -> learn i S = learn i S'.

  Definition votes (D : list sample) (i : nat) : answer := learn i (subset D i).

  Lemma filter_permuted (f : sample -> bool) l l' : Permutation l l' -> Permutation (filter f l) (filter f l').
  Proof.
    induction 1; simpl.
    - constructor.
    - destruct (f x); auto.
    - destruct (f x), (f y); auto. apply perm_swap.
    - eapply perm_trans; eassumption.
  Qed.

  Lemma filter_none (f : sample -> bool) l : (forall s, In s l -> f s = false) -> filter f l = [].
  Proof.
    induction l as [|a l IH]; simpl; intros E; [reflexivity|]. rewrite (E a), IH; auto.
  Qed.

  (** Samples that fall into the partitions H change the votes of the members that H reaches, and no others. *)
  Theorem poisons_reach_only_their_members C R I D D' :
    pure -> Permutation D (C ++ R) -> Permutation D' (C ++ I) ->
    poisoned n reach (map split (R ++ I)) (votes D) (votes D').
  Proof.
    intros PURE ED ED' i _ T. unfold votes, subset.
    assert (none : forall l, incl l (R ++ I) -> filter (fun s => reach (split s) i) l = []).
    { intros l J. apply filter_none. intros s X. destruct (reach (split s) i) eqn:E; [|reflexivity].
      unfold touched in T. rewrite <- T. symmetry. apply existsb_exists. exists (split s).
      split; [apply in_map; auto|assumption]. }
    rewrite (PURE i _ _ (filter_permuted _ _ _ ED)), (PURE i _ _ (filter_permuted _ _ _ ED')), !filter_app.
    rewrite (none R), (none I); [reflexivity| |]; intros s X; apply in_or_app; auto.
  Qed.

  (** So an attack of size r on the training set poisons at most r partitions. *)
  Theorem attack_on_data_is_attack_on_partitions r D D' :
    pure -> within r D D' ->
    exists H, size H <= r /\ incl H (seq 0 P) /\ poisoned n reach H (votes D) (votes D').
  Proof.
    intros PURE (C & R & I & ED & ED' & S). exists (map split (R ++ I)). repeat split.
    - unfold size in *. rewrite map_length, app_length. lia.
    - intros j J. apply in_map_iff in J. destruct J as (s & <- & _). apply in_seq. specialize (split_in_range s). lia.
    - apply poisons_reach_only_their_members with (C := C); assumption.
  Qed.

  (** The same where all poisons fall into partitions that can be poisoned (Theorem 4). *)
  Theorem attack_on_reachable_data r D D' Q :
    pure ->
    (exists C R I, Permutation D (C ++ R) /\ Permutation D' (C ++ I) /\ size R + size I <= r /\
                   forall s, In s (R ++ I) -> In (split s) Q) ->
    exists H, size H <= r /\ incl H Q /\ poisoned n reach H (votes D) (votes D').
  Proof.
    intros PURE (C & R & I & ED & ED' & S & J). exists (map split (R ++ I)). repeat split.
    - unfold size in *. rewrite map_length, app_length. lia.
    - intros j X. apply in_map_iff in X. destruct X as (s & <- & X). apply J. assumption.
    - apply poisons_reach_only_their_members with (C := C); assumption.
  Qed.

  (** r label flips: r samples are replaced by samples of the same partitions. If the split does not look at labels,
      a flipped sample stays in its partition. *)
  Definition flipped (r : Z) (D D' : list sample) : Prop :=
    exists C R I, Permutation D (C ++ R) /\ Permutation D' (C ++ I) /\ map split R = map split I /\ size R <= r.

  Theorem flips_poison_one_partition_each r D D' :
    pure -> flipped r D D' ->
    exists H, size H <= r /\ incl H (seq 0 P) /\ poisoned n reach H (votes D) (votes D').
  Proof.
    intros PURE (C & R & I & ED & ED' & E & S). exists (map split R). repeat split.
    - unfold size in *. rewrite map_length. assumption.
    - intros j J. apply in_map_iff in J. destruct J as (s & <- & _). apply in_seq. specialize (split_in_range s). lia.
    - intros i I' T. apply (poisons_reach_only_their_members C R I); auto.
      rewrite map_app, <- E. unfold touched in *. rewrite existsb_app, T. reflexivity.
  Qed.

  (** r modifications: r samples are replaced by any others. *)
  Definition modified (r : Z) (D D' : list sample) : Prop :=
    exists C R I, Permutation D (C ++ R) /\ Permutation D' (C ++ I) /\ size R = size I /\ size R <= r.

  Theorem modification_counts_two r D D' : modified r D D' -> within (2 * r) D D'.
  Proof. intros (C & R & I & ED & ED' & E & S). exists C, R, I. repeat split; auto. lia. Qed.
End Training.

(** [within] is the distance that the paper means. With samples that can be told apart, count how often each occurs:
    the symmetric difference of two multisets has sum_s |count(D, s) - count(D', s)| samples. *)
Section Distance.
  Context {sample : Type} (equal : forall s s' : sample, {s = s'} + {s <> s'}).

  (** D less one occurrence of s, if there is one. *)
  Fixpoint take_out (s : sample) (D : list sample) : option (list sample) :=
    match D with
    | [] => None
    | x :: rest => if equal s x then Some rest
                   else match take_out s rest with Some rest' => Some (x :: rest') | None => None end
    end.

  (** d_sym: match every sample of D with one of D'; count what is left on both sides. *)
  Fixpoint symmetric_distance (D D' : list sample) : Z :=
    match D with
    | [] => size D'
    | s :: rest => match take_out s D' with
                   | Some others => symmetric_distance rest others
                   | None => 1 + symmetric_distance rest D'
                   end
    end.

  Lemma take_out_spec s : forall D others, take_out s D = Some others -> Permutation D (s :: others).
  Proof.
    induction D as [|x D IH]; simpl; intros others E; [discriminate|].
    destruct (equal s x); [injection E as <-; subst; auto|].
    destruct (take_out s D); [|discriminate]. injection E as <-.
    eapply perm_trans; [apply perm_skip, IH; reflexivity|]. apply perm_swap.
  Qed.

  Theorem within_symmetric_distance : forall D D', within (symmetric_distance D D') D D'.
  Proof.
    induction D as [|s D IH]; intros D'; cbn [symmetric_distance].
    - exists [], [], D'. simpl. repeat split; auto. unfold size. simpl. lia.
    - destruct (take_out s D') as [others|] eqn:E.
      + destruct (IH others) as (C & R & I & A & B & S). exists (s :: C), R, I. simpl. repeat split; auto.
        eapply perm_trans; [apply take_out_spec; eassumption|]. apply perm_skip. assumption.
      + destruct (IH D') as (C & R & I & A & B & S). exists C, (s :: R), I. repeat split; auto.
        * eapply perm_trans; [apply perm_skip; eassumption|]. apply Permutation_middle.
        * unfold size in *. simpl length. lia.
  Qed.
End Distance.
