(** K nearest neighbours: the K training samples nearest to x vote.

    [closer s s'] says that s comes before s' (or is the same sample) in the order by distance to x, then by a canonical
    tie-break; it depends on the two samples and x alone. Among e inserted and q removed samples, the voters are the
    inserted ones that come near enough and the first K - e + q of the others, less those removed. So p stays elected if
    G(K - e + q) - e - q is at least the tie-break for all e + q <= r, where G(M) is the lead of p among the first M. *)

From Coq Require Import ZArith List Lia Bool Permutation.
From Poisonproof Require Import Sums Votes Training.
Import ListNotations.
Open Scope Z_scope.

Section Order.
  Context {sample : Type}.
  Variable closer : sample -> sample -> bool.
  Hypothesis TOTAL : forall s s', closer s s' = true \/ closer s' s = true.
  Hypothesis TRANSITIVE : forall a b c, closer a b = true -> closer b c = true -> closer a c = true.
  Hypothesis CANONICAL : forall a b, closer a b = true -> closer b a = true -> a = b.

  Fixpoint insert (s : sample) (l : list sample) : list sample :=
    match l with
    | [] => [s]
    | x :: rest => if closer s x then s :: l else x :: insert s rest
    end.

  (** The samples, nearest first. *)
  Fixpoint sorted (D : list sample) : list sample :=
    match D with
    | [] => []
    | s :: rest => insert s (sorted rest)
    end.

  (** The first M of them; all, if there are no more. *)
  Definition nearest (M : nat) (D : list sample) : list sample := firstn M (sorted D).

  Inductive ordered : list sample -> Prop :=
  | ordered_nil : ordered []
  | ordered_cons s l : (forall x, In x l -> closer s x = true) -> ordered l -> ordered (s :: l).

  Lemma insert_permuted s l : Permutation (s :: l) (insert s l).
  Proof.
    induction l as [|x l IH]; simpl; [auto|]. destruct (closer s x); [auto|].
    eapply perm_trans; [apply perm_swap|]. auto.
  Qed.

  Lemma sorted_permuted D : Permutation D (sorted D).
  Proof.
    induction D as [|s D IH]; simpl; [auto|]. eapply perm_trans; [apply perm_skip, IH|apply insert_permuted].
  Qed.

  Lemma insert_ordered s l : ordered l -> ordered (insert s l).
  Proof.
    induction 1 as [|x l X O IH]; simpl; [constructor; [intros ? []|constructor]|].
    destruct (closer s x) eqn:C.
    - constructor; [|constructor; assumption]. intros y [<-|Y]; [assumption|]. eapply TRANSITIVE; eauto.
    - constructor; [|assumption]. intros y Y. apply (Permutation_in _ (Permutation_sym (insert_permuted s l))) in Y.
      destruct Y as [<-|Y]; [|auto]. destruct (TOTAL s x); congruence.
  Qed.

  Lemma sorted_ordered D : ordered (sorted D).
  Proof. induction D; simpl; [constructor|]. apply insert_ordered. assumption. Qed.

  (** There is only one order. *)
  Lemma ordered_unique : forall l l', ordered l -> ordered l' -> Permutation l l' -> l = l'.
  Proof.
    induction l as [|x l IH]; intros l' O O' P.
    - apply Permutation_nil in P. auto.
    - destruct l' as [|y l']; [apply Permutation_sym, Permutation_nil in P; discriminate|].
      inversion O as [|? ? X OL]; inversion O' as [|? ? Y OL']; subst.
      assert (x = y).
      { assert (A : In x (y :: l')) by (apply (Permutation_in _ P); left; reflexivity).
        assert (B : In y (x :: l)) by (apply (Permutation_in _ (Permutation_sym P)); left; reflexivity).
        destruct A as [A|A]; [auto|]. destruct B as [B|B]; [auto|]. apply CANONICAL; auto. }
      subst y. f_equal. apply IH; auto. apply Permutation_cons_inv in P. assumption.
  Qed.

  Lemma ordered_app l l' : ordered l -> ordered l' ->
    (forall x y, In x l -> In y l' -> closer x y = true) -> ordered (l ++ l').
  Proof.
    induction 1 as [|x l X O IH]; intros O' C; simpl; [assumption|]. constructor.
    - intros y Y. apply in_app_or in Y. destruct Y as [Y|Y]; [auto|]. apply C; [left; reflexivity|assumption].
    - apply IH; auto. intros a b A B. apply C; [right; assumption|assumption].
  Qed.

  (** Whoever splits D into nearer and farther samples has found the nearest ones. *)
  Lemma nearest_unique D V W :
    Permutation D (V ++ W) -> (forall v w, In v V -> In w W -> closer v w = true) ->
    Permutation V (nearest (length V) D).
  Proof.
    intros P C. unfold nearest.
    assert (E : sorted D = sorted V ++ sorted W).
    { apply ordered_unique; [apply sorted_ordered| |].
      - apply ordered_app; try apply sorted_ordered. intros x y X Y.
        apply C; [apply (Permutation_in _ (Permutation_sym (sorted_permuted V)))
                 |apply (Permutation_in _ (Permutation_sym (sorted_permuted W)))]; assumption.
      - eapply perm_trans; [apply Permutation_sym, sorted_permuted|]. eapply perm_trans; [exact P|].
        apply Permutation_app; apply sorted_permuted. }
    rewrite E, (Permutation_length (sorted_permuted V)), firstn_app, Nat.sub_diag, firstn_all. simpl. rewrite app_nil_r.
    apply sorted_permuted.
  Qed.

  Lemma nearest_splits M D : exists W, Permutation D (nearest M D ++ W)
    /\ (forall v w, In v (nearest M D) -> In w W -> closer v w = true)
    /\ length (nearest M D) = Nat.min M (length D).
  Proof.
    exists (skipn M (sorted D)). unfold nearest. split; [|split].
    - rewrite firstn_skipn. apply sorted_permuted.
    - assert (G : forall l, ordered l -> forall M v w, In v (firstn M l) -> In w (skipn M l) -> closer v w = true).
      { induction 1 as [|x l X O IH]; intros [|m] v w V W; simpl in *; try contradiction.
        destruct V as [<-|V]; [|eauto]. apply X.
        rewrite <- (firstn_skipn m l). apply in_or_app. right. assumption. }
      apply G. apply sorted_ordered.
    - rewrite firstn_length, <- (Permutation_length (sorted_permuted D)). reflexivity.
  Qed.

  (** A list that is split in two ways is split in four. *)
  Lemma four_parts : forall V W C I : list sample, Permutation (V ++ W) (C ++ I) ->
    exists VC VI WC WI, Permutation V (VC ++ VI) /\ Permutation W (WC ++ WI)
                        /\ Permutation C (VC ++ WC) /\ Permutation I (VI ++ WI).
  Proof.
    induction V as [|v V IH]; intros W C I P.
    - exists [], [], C, I. simpl in *. auto.
    - assert (A : In v (C ++ I)) by (apply (Permutation_in _ P); left; reflexivity).
      apply in_app_or in A. destruct A as [A|A].
      + destruct (in_split v C A) as (C1 & C2 & ->).
        assert (P' : Permutation (V ++ W) ((C1 ++ C2) ++ I)).
        { apply Permutation_cons_inv with (a := v). eapply perm_trans; [exact P|].
          rewrite <- !app_assoc. simpl. apply Permutation_sym, Permutation_middle. }
        destruct (IH W (C1 ++ C2) I P') as (VC & VI & WC & WI & A1 & A2 & A3 & A4).
        exists (v :: VC), VI, WC, WI. simpl. repeat split; auto.
        eapply perm_trans; [apply Permutation_sym, Permutation_middle|]. auto.
      + destruct (in_split v I A) as (I1 & I2 & ->).
        assert (P' : Permutation (V ++ W) (C ++ I1 ++ I2)).
        { apply Permutation_cons_inv with (a := v). eapply perm_trans; [exact P|].
          rewrite !app_assoc. apply Permutation_sym, Permutation_middle. }
        destruct (IH W C (I1 ++ I2) P') as (VC & VI & WC & WI & A1 & A2 & A3 & A4).
        exists VC, (v :: VI), WC, WI. repeat split; auto.
        * eapply perm_trans; [apply perm_skip; exact A1|]. apply Permutation_middle.
        * simpl. eapply perm_trans; [apply Permutation_sym, Permutation_middle|]. auto.
  Qed.

  (** * Votes of the nearest *)
  Variable label : sample -> Z.

  Definition for_p_not_c (p c : Z) (s : sample) : Z := one_if (label s =? p) - one_if (label s =? c).

  (** G(M) *)
  Definition lead_among (p c : Z) (V : list sample) : Z := sum (for_p_not_c p c) V.

  Definition neighbours_stand (L : labels) (K : Z) (V : list sample) (c : Z) : Prop :=
    match L with
    | Declared => 0 <= c < K
    | Inferred => c < K /\ (0 <= c \/ exists s, In s V /\ label s = c)
    end.

  Definition neighbours_elect (L : labels) (K : Z) (voters : nat) (D : list sample) (p : Z) : Prop :=
    0 <= p < K /\ forall c, neighbours_stand L K (nearest voters D) c -> c <> p ->
      0 <= lead_among p c (nearest voters D) - one_if (c <? p).

  (** The condition on one rival. *)
  Definition withstands (voters : nat) (D : list sample) (p c : Z) (r : nat) : Prop :=
    forall e q, (e <= voters)%nat -> (e + q <= r)%nat ->
      Z.of_nat (e + q) <= lead_among p c (nearest (voters - e + q) D) - one_if (c <? p).

  Lemma one_vote p c s : c <> p -> -1 <= for_p_not_c p c s <= 1.
  Proof.
    intros N. unfold for_p_not_c. destruct (Z.eqb_spec (label s) p), (Z.eqb_spec (label s) c); cbn [one_if]; lia.
  Qed.

  Lemma many_votes p c l : c <> p -> - size l <= lead_among p c l <= size l.
  Proof.
    intros N. unfold size, lead_among. induction l as [|s l IH]; cbn [sum length]; [lia|].
    pose proof (one_vote p c s N). lia.
  Qed.

  Lemma filter_parts (f : sample -> bool) l : Permutation l (filter f l ++ filter (fun s => negb (f s)) l).
  Proof.
    induction l as [|x l IH]; simpl; [auto|]. destruct (f x); simpl; [auto|].
    eapply perm_trans; [apply perm_skip, IH|]. apply Permutation_middle.
  Qed.

  Lemma lead_after_attack voters D D' p c (C R I : list sample) :
    c <> p -> Permutation D (C ++ R) -> Permutation D' (C ++ I) ->
    withstands voters D p c (length R + length I) ->
    0 <= lead_among p c (nearest voters D') - one_if (c <? p).
  Proof.
    intros N PD PD' OK.
    destruct (nearest_splits voters D') as (W & PW & CW & LV). set (V := nearest voters D') in *.
    destruct (four_parts V W C I) as (VC & VI & WC & WI & A1 & A2 & A3 & A4).
    { eapply perm_trans; [apply Permutation_sym; exact PW|exact PD']. }
    assert (LVC : length V = (length VC + length VI)%nat) by (rewrite (Permutation_length A1), app_length; reflexivity).
    assert (LI : length I = (length VI + length WI)%nat) by (rewrite (Permutation_length A4), app_length; reflexivity).
    assert (LC : length C = (length VC + length WC)%nat) by (rewrite (Permutation_length A3), app_length; reflexivity).
    assert (LW : length W = (length WC + length WI)%nat) by (rewrite (Permutation_length A2), app_length; reflexivity).
    assert (LD : length D = (length C + length R)%nat) by (rewrite (Permutation_length PD), app_length; reflexivity).
    assert (LD' : length D' = (length C + length I)%nat) by (rewrite (Permutation_length PD'), app_length; reflexivity).
    assert (SPLIT : lead_among p c V = lead_among p c VC + lead_among p c VI)
      by (unfold lead_among; rewrite (sum_permuted _ _ _ A1), sum_app; reflexivity).
    pose proof (many_votes p c VI N) as BI.
    destruct (Nat.le_gt_cases voters (length D')) as [ENOUGH|FEW].
    - (* R' : the removed samples that came before some voter who was there already *)
      set (near := fun s => existsb (closer s) VC).
      set (R1 := filter near R). set (R2 := filter (fun s => negb (near s)) R).
      assert (PR : Permutation R (R1 ++ R2)) by apply filter_parts.
      assert (LR : length R = (length R1 + length R2)%nat) by (rewrite (Permutation_length PR), app_length; reflexivity).
      assert (PRE : Permutation (VC ++ R1) (nearest (length (VC ++ R1)) D)).
      { apply nearest_unique with (W := WC ++ R2).
        - eapply perm_trans; [exact PD|]. eapply perm_trans; [apply Permutation_app; [exact A3|exact PR]|].
          rewrite <- !app_assoc. apply Permutation_app_head. rewrite !app_assoc. apply Permutation_app_tail.
          apply Permutation_app_comm.
        - assert (VW : forall v w, In v VC -> In w WC -> closer v w = true).
          { intros v w IV IW. apply CW.
            - apply (Permutation_in _ (Permutation_sym A1)). apply in_or_app. auto.
            - apply (Permutation_in _ (Permutation_sym A2)). apply in_or_app. auto. }
          assert (VR : forall v s, In v VC -> In s R2 -> closer v s = true).
          { intros v s IV IS. apply filter_In in IS. destruct IS as [_ NEAR]. apply negb_true_iff in NEAR.
            destruct (TOTAL v s) as [T|T]; [assumption|].
            assert (near s = true) by (apply existsb_exists; exists v; auto). congruence. }
          intros v w IV IW. apply in_app_or in IV. apply in_app_or in IW.
          destruct IV as [IV|IV]; [destruct IW; auto|].
          apply filter_In in IV. destruct IV as [_ NEAR]. apply existsb_exists in NEAR. destruct NEAR as (x & X & CX).
          apply (TRANSITIVE v x w CX). destruct IW; auto. }
      assert (LEN : length (VC ++ R1) = (voters - length VI + length R1)%nat) by (rewrite app_length; lia).
      rewrite LEN in PRE.
      assert (LEAD : lead_among p c (nearest (voters - length VI + length R1) D)
                     = lead_among p c VC + lead_among p c R1)
        by (unfold lead_among; rewrite <- (sum_permuted _ _ _ PRE), sum_app; reflexivity).
      pose proof (many_votes p c R1 N) as BR.
      specialize (OK (length VI) (length R1) ltac:(lia) ltac:(lia)). unfold size in *. lia.
    - (* fewer samples than voters: everybody votes *)
      assert (WC = [] /\ WI = []) as [-> ->].
      { assert (length W = 0)%nat.
        { pose proof (Permutation_length PW) as LP. rewrite app_length in LP. lia. }
        split; apply length_zero_iff_nil; lia. }
      rewrite app_nil_r in *.
      assert (ALL : nearest (voters - length I + length R) D = sorted D).
      { unfold nearest. apply firstn_all2. rewrite <- (Permutation_length (sorted_permuted D)). simpl in *. lia. }
      assert (LEAD : lead_among p c (sorted D) = lead_among p c VC + lead_among p c R).
      { unfold lead_among. rewrite <- (sum_permuted _ _ _ (sorted_permuted D)), (sum_permuted _ _ _ PD), sum_app.
        rewrite (sum_permuted _ _ _ A3). reflexivity. }
      pose proof (many_votes p c R N) as BR.
      specialize (OK (length I) (length R) ltac:(simpl in *; lia) ltac:(lia)). rewrite ALL, LEAD in OK.
      unfold size in *. simpl in *. lia.
  Qed.

  (** Soundness: any rival, known or (where classes were inferred, and r > 0) invented. *)
  Theorem neighbours_sound L K voters D D' p (r : nat) :
    neighbours_elect L K voters D p ->
    (forall c, c < K -> c <> p -> 0 <= c \/ (L = Inferred /\ (0 < r)%nat) -> withstands voters D p c r) ->
    within (Z.of_nat r) D D' ->
    neighbours_elect L K voters D' p.
  Proof.
    intros [P E] OK (C & R & I & PD & PD' & S). split; [assumption|]. intros c ST N.
    assert (step : 0 <= c \/ (L = Inferred /\ (0 < r)%nat) -> c < K ->
                   0 <= lead_among p c (nearest voters D') - one_if (c <? p)).
    { intros Q CK. apply (lead_after_attack voters D D' p c C R I N PD PD').
      intros e q A B. apply (OK c CK N Q); [assumption|]. unfold size in S. lia. }
    destruct L; simpl in ST; [apply step; [left|]; lia|].
    destruct ST as [CK [ST|ST]]; [apply step; [left; lia|assumption]|].
    destruct r as [|r]; [|apply step; [right; split; [reflexivity|lia]|assumption]].
    (* nothing was changed *)
    assert (R = []) by (destruct R; [reflexivity|unfold size in S; simpl length in S; lia]).
    assert (I = []) by (destruct I; [reflexivity|unfold size in S; simpl length in S; lia]). subst.
    rewrite app_nil_r in *.
    assert (SAME : nearest voters D' = nearest voters D).
    { unfold nearest. f_equal. apply ordered_unique; try apply sorted_ordered.
      eapply perm_trans; [apply Permutation_sym, sorted_permuted|]. eapply perm_trans; [exact PD'|].
      eapply perm_trans; [apply Permutation_sym; exact PD|]. apply sorted_permuted. }
    rewrite SAME in *. apply E; auto. simpl. auto.
  Qed.
End Order.

(** * The checker of one test sample

    It is shown the labels of the nearest training samples in order: the first voters + r, or all if there are fewer. *)

(** The most that e + q can be when M = voters - e + q, e + q <= r: r, or r - 1 if the parity does not fit. *)
Definition needed (voters r M : Z) : Z := r - (r + M - voters) mod 2.

Fixpoint walk (voters r p c tie M G : Z) (shown : list Z) : bool :=
  (if voters - r <=? M then needed voters r M <=? G - tie else true)
  && match shown with
     | [] => r <=? G - tie
     | x :: rest => if voters + r <=? M then true
                    else walk voters r p c tie (M + 1) (G + one_if (x =? p) - one_if (x =? c)) rest
     end.

Record neighbour_setting := NeighbourSetting {
  neighbour_labels : labels; neighbour_classes : Z; n_voters : Z; n_training : Z }.

Definition valid_neighbours (s : neighbour_setting) (r : Z) (shown : list Z) : bool :=
  (sum (fun _ => 1) shown =? Z.min (n_training s) (n_voters s + r))
  && forallb (fun x => (0 <=? x) && (x <? neighbour_classes s)) shown.

Fixpoint upto (n : nat) : list Z :=
  match n with
  | O => []
  | S m => upto m ++ [Z.of_nat m]
  end.

Definition check_neighbours (s : neighbour_setting) (shown : list Z) (p r : Z) : bool :=
  let rival c := walk (n_voters s) r p c (one_if (c <? p)) 0 0 shown in
  valid_neighbours s r shown && (0 <=? p) && (p <? neighbour_classes s) && (0 <=? r) && (0 <=? n_voters s)
  && forallb (fun c => (c =? p) || rival c) (upto (Z.to_nat (neighbour_classes s)))
  && match neighbour_labels s with
     | Declared => true
     | Inferred => (r <=? 0) || rival (-1)
     end.

Lemma in_upto n c : In c (upto n) <-> 0 <= c < Z.of_nat n.
Proof.
  induction n as [|n IH]; simpl upto; [simpl; lia|]. rewrite in_app_iff, IH. simpl In. lia.
Qed.

(** G over the labels shown. *)
Definition lead_of_labels (p c : Z) (l : list Z) : Z := sum (fun x => one_if (x =? p) - one_if (x =? c)) l.

Lemma walk_spec voters r p c tie : forall shown M G,
  walk voters r p c tie M G shown = true ->
  forall m : nat, voters - r <= M + Z.of_nat m -> M + Z.of_nat m <= voters + r ->
  needed voters r (M + Z.of_nat m) <= G + lead_of_labels p c (firstn m shown) - tie.
Proof.
  induction shown as [|x shown IH]; intros M G E m LOW HIGH; cbn [walk] in E; apply andb_true_iff in E;
    destruct E as [HERE REST].
  - apply Z.leb_le in REST. rewrite firstn_nil. unfold lead_of_labels, needed. cbn [sum].
    pose proof (Z.mod_pos_bound (r + (M + Z.of_nat m) - voters) 2). lia.
  - destruct m as [|m].
    + rewrite Z.add_0_r in *. destruct (Z.leb_spec (voters - r) M); [|lia]. apply Z.leb_le in HERE.
      unfold lead_of_labels. simpl sum. lia.
    + destruct (Z.leb_spec (voters + r) M); [lia|].
      specialize (IH (M + 1) _ REST m ltac:(lia) ltac:(lia)).
      replace (M + Z.of_nat (S m)) with (M + 1 + Z.of_nat m) by lia.
      unfold lead_of_labels in *. cbn [firstn sum]. lia.
Qed.

Lemma firstn_map {A B : Type} (f : A -> B) l : forall n, firstn n (map f l) = map f (firstn n l).
Proof. induction l as [|x l IH]; intros [|n]; simpl; auto. rewrite IH. reflexivity. Qed.

Section Checked.
  Context {sample : Type}.
  Variable closer : sample -> sample -> bool.
  Hypothesis TOTAL : forall s s', closer s s' = true \/ closer s' s = true.
  Hypothesis TRANSITIVE : forall a b c, closer a b = true -> closer b c = true -> closer a c = true.
  Hypothesis CANONICAL : forall a b, closer a b = true -> closer b a = true -> a = b.
  Variables (label : sample -> Z) (s : neighbour_setting) (D : list sample).

  Theorem check_neighbours_sound shown p r D' :
    (forall x, In x D -> 0 <= label x) ->
    shown = map label (nearest closer (Z.to_nat (n_voters s + r)) D) ->
    check_neighbours s shown p r = true -> within r D D' ->
    neighbours_elect closer label (neighbour_labels s) (neighbour_classes s) (Z.to_nat (n_voters s)) D' p.
  Proof.
    intros KNOWN SHOWN C NEAR. unfold check_neighbours in C.
    apply andb_true_iff in C. destruct C as [C NEW]. apply andb_true_iff in C. destruct C as [C RIVALS].
    apply andb_true_iff in C. destruct C as [C VOT]. apply andb_true_iff in C. destruct C as [C R].
    apply andb_true_iff in C. destruct C as [C PK]. apply andb_true_iff in C. destruct C as [_ P0].
    apply Z.leb_le in VOT. apply Z.leb_le in R. apply Z.leb_le in P0. apply Z.ltb_lt in PK.
    set (voters := Z.to_nat (n_voters s)).
    assert (VOTERS : Z.of_nat voters = n_voters s) by (unfold voters; lia).
    assert (G : forall c, walk (n_voters s) r p c (one_if (c <? p)) 0 0 shown = true ->
                withstands closer label voters D p c (Z.to_nat r)).
    { intros c WALK e q E EQ.
      pose proof (walk_spec (n_voters s) r p c (one_if (c <? p)) shown 0 0 WALK (voters - e + q)%nat
                    ltac:(lia) ltac:(lia)) as S.
      rewrite SHOWN, firstn_map in S. unfold lead_of_labels in S. rewrite sum_of_map in S.
      unfold nearest in S. rewrite firstn_firstn in S.
      replace (Nat.min (voters - e + q) (Z.to_nat (n_voters s + r))) with (voters - e + q)%nat in S by lia.
      unfold lead_among, for_p_not_c, nearest. unfold needed in S.
      assert (PAR : (r + (0 + Z.of_nat (voters - e + q)) - n_voters s) mod 2 <= r - Z.of_nat (e + q)).
      { replace (r + (0 + Z.of_nat (voters - e + q)) - n_voters s) with ((r - Z.of_nat (e + q)) + Z.of_nat q * 2) by lia.
        rewrite Z_mod_plus_full. apply Z.mod_le; lia. }
      lia. }
    assert (K1 : forall c, 0 <= c < neighbour_classes s -> c <> p -> withstands closer label voters D p c (Z.to_nat r)).
    { intros c CK N. apply G. rewrite forallb_forall in RIVALS. specialize (RIVALS c). rewrite in_upto in RIVALS.
      specialize (RIVALS ltac:(lia)). apply orb_true_iff in RIVALS. destruct RIVALS as [X|X]; [apply Z.eqb_eq in X; lia|assumption]. }
    apply (neighbours_sound closer TOTAL TRANSITIVE CANONICAL label (neighbour_labels s) (neighbour_classes s) voters D D' p
             (Z.to_nat r)).
    - split; [lia|]. intros c ST N.
      assert (CK : 0 <= c < neighbour_classes s).
      { unfold neighbours_stand in ST. destruct (neighbour_labels s); [assumption|].
        destruct ST as [CK [CP|(x & X & LX)]]; [lia|]. subst c. split; [|assumption]. apply KNOWN.
        apply (Permutation_in _ (Permutation_sym (sorted_permuted closer D))).
        unfold nearest in X. rewrite <- (firstn_skipn voters). apply in_or_app. left. assumption. }
      pose proof (K1 c CK N 0%nat 0%nat ltac:(lia) ltac:(lia)) as Z0.
      replace (voters - 0 + 0)%nat with voters in Z0 by lia. lia.
    - intros c CK N [Q|[INF Q]]; [apply K1; lia|].
      destruct (Z_lt_le_dec c 0) as [NEG|POS]; [|apply K1; lia].
      rewrite INF in NEW. apply orb_true_iff in NEW. destruct NEW as [NEW|NEW]; [apply Z.leb_le in NEW; lia|].
      (* all invented classes are alike *)
      intros e q E EQ. specialize (G (-1) NEW e q E EQ).
      assert (SAME : lead_among label p c (nearest closer (voters - e + q) D)
                     = lead_among label p (-1) (nearest closer (voters - e + q) D)).
      { apply sum_ext. intros x X.
        assert (0 <= label x).
        { apply KNOWN. apply (Permutation_in _ (Permutation_sym (sorted_permuted closer D))).
          unfold nearest in X. rewrite <- (firstn_skipn (voters - e + q)). apply in_or_app. left. assumption. }
        unfold for_p_not_c. destruct (Z.eqb_spec (label x) c), (Z.eqb_spec (label x) (-1)); lia. }
      rewrite SAME. replace (c <? p) with (-1 <? p); [assumption|].
      destruct (Z.ltb_spec (-1) p), (Z.ltb_spec c p); try reflexivity; lia.
    - replace (Z.of_nat (Z.to_nat r)) with r by lia. assumption.
  Qed.
End Checked.
