(** Sums of integers over finite lists, and the one inequality behind Theorem 2: what r different entries sum to. *)

From Coq Require Import ZArith List Lia Permutation.
Import ListNotations.
Open Scope Z_scope.

(** The Iverson bracket. *)
Definition one_if (b : bool) : Z := if b then 1 else 0.

Fixpoint sum {A : Type} (f : A -> Z) (l : list A) : Z :=
  match l with
  | [] => 0
  | x :: rest => f x + sum f rest
  end.

(** How many entries a list has, as an integer. *)
Definition size {A : Type} (l : list A) : Z := Z.of_nat (length l).

Definition positive_part (z : Z) : Z := Z.max 0 z.

Section Sums.
  Context {A : Type}.
  Implicit Types (f g : A -> Z) (l : list A).

  Lemma sum_app f l1 l2 : sum f (l1 ++ l2) = sum f l1 + sum f l2.
  Proof. induction l1; simpl; lia. Qed.

  Lemma sum_ext f g l : (forall x, In x l -> f x = g x) -> sum f l = sum g l.
  Proof.
    induction l as [|a l IH]; simpl; intros H; [reflexivity|].
    rewrite (H a), IH; auto.
  Qed.

  Lemma sum_le f g l : (forall x, In x l -> f x <= g x) -> sum f l <= sum g l.
  Proof.
    induction l as [|a l IH]; simpl; intros H; [lia|].
    assert (f a <= g a) by auto. assert (sum f l <= sum g l) by auto. lia.
  Qed.

  Lemma sum_nonnegative f l : (forall x, In x l -> 0 <= f x) -> 0 <= sum f l.
  Proof.
    induction l as [|a l IH]; simpl; intros H; [lia|].
    assert (0 <= f a) by auto. assert (0 <= sum f l) by auto. lia.
  Qed.

  Lemma sum_plus f g l : sum (fun x => f x + g x) l = sum f l + sum g l.
  Proof. induction l; simpl; lia. Qed.

  Lemma sum_minus f g l : sum (fun x => f x - g x) l = sum f l - sum g l.
  Proof. induction l; simpl; lia. Qed.

  Lemma sum_scaled a f l : sum (fun x => a * f x) l = a * sum f l.
  Proof. induction l; simpl; lia. Qed.

  Lemma sum_constant a l : sum (fun _ => a) l = size l * a.
  Proof. unfold size. induction l; simpl length; simpl sum; lia. Qed.

  Lemma sum_permuted f l1 l2 : Permutation l1 l2 -> sum f l1 = sum f l2.
  Proof. induction 1; simpl; lia. Qed.

  Lemma sum_member f l x : (forall y, In y l -> 0 <= f y) -> In x l -> f x <= sum f l.
  Proof.
    induction l as [|a l IH]; simpl; intros H I; [contradiction|]. destruct I as [->|I].
    - assert (0 <= sum f l) by (apply sum_nonnegative; auto). lia.
    - assert (0 <= f a) by auto. assert (f x <= sum f l) by auto. lia.
  Qed.

  (** Different entries of a list sum to no more than all of them. *)
  Lemma sum_included f l1 : forall l2,
    NoDup l1 -> incl l1 l2 -> (forall x, In x l2 -> 0 <= f x) -> sum f l1 <= sum f l2.
  Proof.
    induction l1 as [|a l1 IH]; intros l2 D I P.
    - apply sum_nonnegative; assumption.
    - inversion D as [|? ? N D']; subst.
      destruct (in_split a l2) as (l3 & l4 & ->); [apply I; left; reflexivity|].
      assert (E : sum f l1 <= sum f (l3 ++ l4)).
      { apply IH; auto.
        - intros x X. assert (J : In x (l3 ++ a :: l4)) by (apply I; right; assumption).
          apply in_app_or in J. destruct J as [J|[J|J]]; apply in_or_app; auto.
          subst x. contradiction.
        - intros x X. apply P. apply in_app_or in X. apply in_or_app. simpl. tauto. }
      rewrite sum_app in E. simpl. rewrite sum_app. simpl. lia.
  Qed.

  (** At most r different entries sum to at most r t + (what entries exceed t by), whatever t is. With the r-th largest
      entry for t both sides are equal, so t is a witness that nobody needs to trust. *)
  Lemma sum_of_largest f (chosen all : list A) (r t : Z) :
    NoDup chosen -> incl chosen all -> size chosen <= r -> 0 <= t ->
    sum f chosen <= r * t + sum (fun x => positive_part (f x - t)) all.
  Proof.
    intros D I S T.
    assert (sum f chosen <= sum (fun x => t + positive_part (f x - t)) chosen)
      by (apply sum_le; intros; unfold positive_part; lia).
    rewrite sum_plus, sum_constant in H.
    assert (sum (fun x => positive_part (f x - t)) chosen <= sum (fun x => positive_part (f x - t)) all)
      by (apply sum_included; auto; intros; unfold positive_part; lia).
    nia.
  Qed.
End Sums.

Lemma sum_swapped {A B : Type} (f : A -> B -> Z) (l : list A) (m : list B) :
  sum (fun x => sum (fun y => f x y) m) l = sum (fun y => sum (fun x => f x y) l) m.
Proof.
  induction l as [|a l IH]; simpl.
  - induction m; simpl; lia.
  - rewrite IH, sum_plus. reflexivity.
Qed.

Lemma sum_of_map {A B : Type} (f : B -> Z) (g : A -> B) (l : list A) : sum f (map g l) = sum (fun x => f (g x)) l.
Proof. induction l; simpl; [reflexivity|]. rewrite IHl. reflexivity. Qed.

Lemma one_if_existsb {A : Type} (f : A -> bool) (l : list A) :
  one_if (existsb f l) <= sum (fun x => one_if (f x)) l.
Proof.
  induction l as [|a l IH]; [simpl; lia|].
  assert (0 <= sum (fun x => one_if (f x)) l) by (apply sum_nonnegative; intros x _; destruct (f x); simpl; lia).
  cbn [existsb sum]. destruct (f a); cbn [orb]; change (one_if true) with 1; change (one_if false) with 0; lia.
Qed.

Lemma one_if_bounds (b : bool) : 0 <= one_if b <= 1.
Proof. destruct b; simpl; lia. Qed.

Lemma size_nonnegative {A : Type} (l : list A) : 0 <= size l.
Proof. unfold size; lia. Qed.
