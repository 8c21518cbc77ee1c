(** Votes, weights and sums as lists: what the checker computes with, and that it is what the theorems speak of. *)

From Coq Require Import ZArith List Lia Bool.
From Poisonproof Require Import Sums Votes Cover.
Import ListNotations.
Open Scope Z_scope.

(** The i-th entry of a list, 0 beyond its end. *)
Definition entry (l : list Z) (i : nat) : Z := nth i l 0.

Fixpoint drop (s : Z) (l : list Z) : list Z :=
  match l with
  | [] => []
  | _ :: rest => if s <=? 0 then l else drop (s - 1) rest
  end.

Fixpoint zip_add (l m : list Z) : list Z :=
  match l, m with
  | x :: l', y :: m' => x + y :: zip_add l' m'
  | _, _ => l
  end.

(** 0, 1, ... below n. *)
Definition range (n : Z) : list Z := map Z.of_nat (seq 0 (Z.to_nat n)).

(** Sum over the allowed places of what entries exceed t by. *)
Fixpoint excess (t : Z) (sums : list Z) (allowed : list bool) : Z :=
  match sums, allowed with
  | s :: sums', a :: allowed' =>
      let rest := excess t sums' allowed' in
      if a then if s <=? t then rest else s - t + rest else rest
  | _, _ => 0
  end.

Lemma in_range n c : In c (range n) <-> 0 <= c < n.
Proof.
  unfold range. rewrite in_map_iff. split.
  - intros (i & <- & I). apply in_seq in I. lia.
  - intros C. exists (Z.to_nat c). split; [lia|]. apply in_seq. lia.
Qed.

Lemma entry_drop : forall l s j, entry (drop s l) j = entry l (j + Z.to_nat s).
Proof.
  unfold entry. induction l as [|x l IH]; intros s j.
  - simpl. destruct j, (Z.to_nat s); reflexivity.
  - cbn [drop]. destruct (Z.leb_spec s 0).
    + replace (Z.to_nat s) with 0%nat by lia. rewrite Nat.add_0_r. reflexivity.
    + rewrite IH. replace (Z.to_nat s) with (S (Z.to_nat (s - 1))) by lia. rewrite Nat.add_succ_r. reflexivity.
Qed.

Lemma length_zip_add : forall l m, length (zip_add l m) = length l.
Proof. induction l as [|x l IH]; intros [|y m]; simpl; auto. Qed.

Lemma entry_zip_add : forall l m j, (j < length l)%nat -> entry (zip_add l m) j = entry l j + entry m j.
Proof.
  unfold entry. induction l as [|x l IH]; intros m j J; [simpl in J; lia|].
  destruct m as [|y m]; [simpl; destruct j; lia|].
  destruct j; [reflexivity|]. simpl in J. cbn [zip_add nth]. apply IH. lia.
Qed.

Lemma entry_map (f : Z -> Z) l i : (i < length l)%nat -> entry (map f l) i = f (entry l i).
Proof.
  intros I. unfold entry. rewrite (nth_indep _ 0 (f 0)) by (rewrite map_length; assumption). apply map_nth.
Qed.

Lemma entry_in l i : (i < length l)%nat -> In (entry l i) l.
Proof. apply nth_In. Qed.

(** A sum over places is a sum over the list. *)
Lemma sum_of_entries (f : Z -> Z) l : sum (fun i => f (entry l i)) (members (length l)) = sum f l.
Proof.
  unfold members.
  assert (G : forall l k, sum (fun i => f (entry l (i - k))) (seq k (length l)) = sum f l).
  { clear. induction l as [|x l IH]; intros k; [reflexivity|].
    cbn [length seq sum]. rewrite Nat.sub_diag. change (entry (x :: l) 0) with x. rewrite <- (IH (S k)). f_equal.
    apply sum_ext. intros i I. apply in_seq in I. f_equal. unfold entry.
    replace (i - k)%nat with (S (i - S k)) by lia. reflexivity. }
  rewrite <- (G l 0%nat). apply sum_ext. intros i _. rewrite Nat.sub_0_r. reflexivity.
Qed.

Definition is_allowed (allowed : list bool) (j : nat) : bool := nth j allowed false.

Lemma sum_filtered {A : Type} (f : A -> Z) (g : A -> bool) l : sum f (filter g l) = sum (fun x => if g x then f x else 0) l.
Proof. induction l as [|x l IH]; simpl; [reflexivity|]. destruct (g x); simpl; rewrite IH; lia. Qed.

Lemma excess_spec t : 0 <= t -> forall sums allowed,
  excess t sums allowed
  = sum (fun j => positive_part (entry sums j - t)) (filter (is_allowed allowed) (seq 0 (length sums))).
Proof.
  intros T.
  assert (G : forall sums allowed k, excess t sums allowed
    = sum (fun j => if is_allowed allowed (j - k) then positive_part (entry sums (j - k) - t) else 0)
        (seq k (length sums))).
  { induction sums as [|s sums IH]; intros allowed k; [destruct allowed; reflexivity|].
    destruct allowed as [|a allowed].
    - simpl excess. symmetry. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_constant; lia|].
      intros j _. unfold is_allowed. destruct (j - k)%nat; reflexivity.
    - cbn [excess length seq sum]. rewrite Nat.sub_diag.
      change (is_allowed (a :: allowed) 0) with a. change (entry (s :: sums) 0) with s.
      assert (E : sum (fun j => if is_allowed (a :: allowed) (j - k) then positive_part (entry (s :: sums) (j - k) - t) else 0)
                    (seq (S k) (length sums)) = excess t sums allowed).
      { rewrite (IH allowed (S k)). apply sum_ext. intros j J. apply in_seq in J.
        replace (j - k)%nat with (S (j - S k)) by lia. reflexivity. }
      rewrite E. unfold positive_part. destruct a; [|lia]. destruct (Z.leb_spec s t); lia. }
  intros sums allowed. rewrite sum_filtered, (G sums allowed 0%nat). apply sum_ext. intros j _.
  rewrite Nat.sub_0_r. reflexivity.
Qed.

(** Votes as a list. *)
Lemma count_of_list votes c :
  count (length votes) (entry votes) c = sum (fun x => one_if (x =? c)) votes.
Proof. unfold count. apply (sum_of_entries (fun x => one_if (x =? c))). Qed.
