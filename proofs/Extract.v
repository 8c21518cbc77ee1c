(** From Coq to OCaml. Integers become Zarith's, of any size (the mapping of Coq's own library, and three comparisons
    more, which it leaves to be computed by way of [Z.compare]); booleans, pairs, options and lists become OCaml's. *)

From Coq Require Import ZArith Extraction ExtrOcamlBasic ExtrOcamlZBigInt.
From Poisonproof Require Import Votes Spreads Trees Groups Checker RunOffChecker Ballots Neighbours.

Extract Inlined Constant Z.leb => "Big_int_Z.le_big_int".
Extract Inlined Constant Z.ltb => "Big_int_Z.lt_big_int".
Extract Inlined Constant Z.eqb => "Big_int_Z.eq_big_int".
Extract Inlined Constant Z.add => "Big_int_Z.add_big_int".
Extract Inlined Constant Z.sub => "Big_int_Z.sub_big_int".

Extraction "checker/certified.ml"
  valid_spread everything make_setting valid_votes valid_claim check_sample
  valid_rankings valid_run_off check_run_off
  valid_ballots check_ballots valid_neighbours check_neighbours.
