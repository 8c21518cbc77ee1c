(* poisonproof-check: reads a witness, asks the certified functions about every sample, says what they answered.

   Nothing here decides anything: [Certified] is extracted from the Coq proofs, and this file turns text into its
   arguments. The format is described in proofs/README.md. Exit codes: 0 all accepted, 3 some refused, 2 the
   witness is not in order, 4 the machine gave out. *)

module Integer = Z (* Zarith's *)
open Certified

exception Bad of string

let bad format = Printf.ksprintf (fun words -> raise (Bad words)) format

(* {1 Words and numbers} *)

let channel = ref stdin
let buffer = Bytes.create 65536
let filled = ref 0
let next = ref 0

let next_char () =
  if !next >= !filled then begin
    filled := input !channel buffer 0 (Bytes.length buffer);
    next := 0
  end;
  if !filled = 0 then '\000'
  else begin
    let c = Bytes.unsafe_get buffer !next in
    incr next;
    c
  end

let is_space c = c = ' ' || c = '\n' || c = '\t' || c = '\r'
let word = Buffer.create 32

let next_word () =
  let c = ref (next_char ()) in
  while is_space !c do c := next_char () done;
  Buffer.clear word;
  while not (is_space !c) && !c <> '\000' do
    if Buffer.length word > 1000 then bad "the witness holds a word of more than 1000 characters.";
    Buffer.add_char word !c;
    c := next_char ()
  done;
  if Buffer.length word = 0 then bad "the witness ends too early.";
  Buffer.contents word

(* Most numbers are short: they are read without making a word of them. *)
let number what =
  let c = ref (next_char ()) in
  while is_space !c do c := next_char () done;
  if !c = '\000' then bad "the witness ends too early: %s is missing." what;
  let value = ref 0 and digits = ref 0 in
  while !c >= '0' && !c <= '9' && !digits < 18 do
    value := (10 * !value) + Char.code !c - 48;
    incr digits;
    c := next_char ()
  done;
  if !digits > 0 && (is_space !c || !c = '\000') then Integer.of_int !value
  else begin
    Buffer.clear word;
    if !digits > 0 then Buffer.add_string word (string_of_int !value);
    while not (is_space !c) && !c <> '\000' && Buffer.length word <= 1000 do
      Buffer.add_char word !c;
      c := next_char ()
    done;
    let text = Buffer.contents word in
    let plain = String.for_all (fun c -> c >= '0' && c <= '9') in
    if String.length text > 1 && text.[0] = '-' then bad "%s is %S: no number here may be negative." what text
    else if String.length text <= 1000 && String.length text > 0 && plain text then Integer.of_string text
    else bad "%s should be a number, not %S." what text
  end

let most = 100_000_000

let count what =
  let value = number what in
  if Integer.gt value (Integer.of_int most) then bad "%s is %s: more than %d are not read." what (Integer.to_string value) most;
  Integer.to_int value

let numbers how_many what =
  let items = ref [] in
  for _ = 1 to how_many do items := number what :: !items done;
  List.rev !items

let below limit how_many what =
  let items = numbers how_many what in
  if List.exists (fun item -> Integer.geq item (Integer.of_int limit)) items then
    bad "%s must lie in 0 ... %d, and %s does not." what (limit - 1)
      (Integer.to_string (List.find (fun item -> Integer.geq item (Integer.of_int limit)) items));
  items

let expect wanted =
  let found = next_word () in
  if found <> wanted then bad "%S should stand where %S stands." wanted found

let one_of what choices =
  let found = next_word () in
  match List.assoc_opt found choices with
  | Some choice -> choice
  | None -> bad "%s should be %s, not %S." what (String.concat " or " (List.map fst choices)) found

(* {1 The parts of a witness} *)

let class_labels () =
  expect "classes";
  let k = count "the number of classes" in
  if k < 1 then bad "there must be at least one class.";
  (k, one_of "the class list" [ ("declared", Declared); ("inferred", Inferred) ])

let spread () =
  expect "spread";
  let shape = one_of "the spread" [ ("shifts", `Shifts); ("table", `Table) ] in
  let n = count "the number of members" in
  match shape with
  | `Shifts ->
      let d = count "the number of shifts" in
      (n, n, Shifts (Integer.of_int n, below n d "a shift"))
  | `Table ->
      let partitions = count "the number of partitions" in
      let rows = ref [] in
      for _ = 1 to partitions do
        let d = count "how many members a partition reaches" in
        rows := below n d "a member" :: !rows
      done;
      (n, partitions, Table (Integer.of_int n, List.rev !rows))

let mask partitions items =
  let flags = Array.make partitions false in
  List.iter (fun item -> flags.(Integer.to_int item) <- true) items;
  Array.to_list flags

let reachable partitions the_spread =
  expect "reachable";
  match one_of "what can be poisoned" [ ("all", `All); ("some", `Some) ] with
  | `All -> everything the_spread
  | `Some -> mask partitions (below partitions (count "the number of partitions") "a partition that can be poisoned")

let groups partitions =
  expect "groups";
  let n_groups = count "the number of groups" in
  if n_groups = 0 then None
  else begin
    let overlap = number "the overlap" in
    let one = one_of "the overlap" [ ("least", false); ("exactly", true) ] in
    let all = ref [] in
    for _ = 1 to n_groups do
      let size = count "the size of a group" in
      all := mask partitions (below partitions size "a partition of a group") :: !all
    done;
    Some ((overlap, one), List.rev !all)
  end

let rec tree n depth =
  if depth > 100_000 then bad "a tree is deeper than 100000.";
  match one_of "a tree" [ ("largest", `Largest); ("dual", `Dual); ("branch", `Branch) ] with
  | `Largest -> Largest (number "a threshold")
  | `Dual ->
      let t = number "a threshold" in
      Dual (t, numbers n "u")
  | `Branch ->
      let j = number "a partition" in
      let with_j = tree n (depth + 1) in
      let without_j = tree n (depth + 1) in
      Branch (j, with_j, without_j)

let rival () =
  match next_word () with
  | "invented" -> Integer.minus_one
  | text when text <> "" && String.for_all (fun c -> c >= '0' && c <= '9') text -> Integer.of_string text
  | text -> bad "a rival should be a class or 'invented', not %S." text

let hint n =
  expect "hint";
  let rival = rival () in
  match one_of "a hint" [ ("tree", `Tree); ("groups", `Groups) ] with
  | `Tree -> (rival, ByTree (tree n 0))
  | `Groups ->
      let found = ref [] in
      for _ = 1 to count "the number of searches" do
        let in_group = number "a group" in
        let picks = number "a number of picks" in
        let bound = number "a bound" in
        found := { in_group; picks; bound; by_tree = tree n 0 } :: !found
      done;
      (rival, ByGroups (List.rev !found))

(* {1 Answers} *)

let accepted = ref 0
let refused = ref 0

let answer sample yes =
  incr (if yes then accepted else refused);
  print_string "sample ";
  print_string (string_of_int sample);
  print_string (if yes then " accepted\n" else " refused\n")

let each_sample check =
  expect "samples";
  let total = count "the number of samples" in
  for sample = 0 to total - 1 do
    expect "sample";
    answer sample (try check () with Bad words -> bad "sample %d: %s" sample words)
  done;
  expect "end"

let ensemble () =
  let k, labels = class_labels () in
  let n, partitions, the_spread = spread () in
  if not (valid_spread the_spread) then bad "the spread is not in order.";
  (* Lists that live for one pass should die young. *)
  if n > 500 then Gc.set { (Gc.get ()) with minor_heap_size = 4 * 1024 * 1024; space_overhead = 200 };
  let allowed = reachable partitions the_spread in
  let grouped = groups partitions in
  let setting = make_setting labels (Integer.of_int k) the_spread allowed grouped in
  if grouped <> None && setting.the_grouping = None then
    bad "the groups are not those of the spread: partitions are left out, or share fewer members than is said.";
  each_sample (fun () ->
      let prediction = number "the prediction" in
      let radius = number "the radius" in
      let threshold = number "the threshold" in
      let n_hints = count "the number of hints" in
      expect "votes";
      let votes = numbers n "a vote" in
      let hints = ref [] in
      for _ = 1 to n_hints do hints := hint n :: !hints done;
      let claim = { prediction; radius; threshold; hints = List.rev !hints } in
      if not (valid_votes setting votes) then bad "a vote is neither a class (0 ... %d) nor an abstention (%d)." (k - 1) k;
      if not (valid_claim setting claim) then bad "the prediction must be one of the %d classes." k;
      check_sample setting votes claim)

let limit () =
  match one_of "a limit" [ ("partitions", `Partitions); ("members", `Members) ] with
  | `Partitions -> ByPartitions (number "a threshold")
  | `Members -> ByMembers (number "a threshold")

let run_off () =
  let k, labels = class_labels () in
  if labels <> Declared then bad "a run-off election is checked for declared classes alone.";
  let n, partitions, the_spread = spread () in
  if not (valid_spread the_spread) then bad "the spread is not in order.";
  if n > 500 then Gc.set { (Gc.get ()) with minor_heap_size = 4 * 1024 * 1024; space_overhead = 200 };
  let allowed = reachable partitions the_spread in
  let setting = make_setting labels (Integer.of_int k) the_spread allowed None in
  each_sample (fun () ->
      let elected = number "the prediction" in
      let withstood = number "the radius" in
      let n_pushed = count "the number of pairs" in
      let n_beaten = count "the number of rivals" in
      expect "rankings";
      let rankings = ref [] in
      for _ = 1 to n do
        let named = count "how many classes are ranked" in
        if named > k then bad "a ranking names %d classes, and there are %d." named k;
        rankings := below k named "a ranked class" :: !rankings
      done;
      let rankings = List.rev !rankings in
      let round_1 = ref [] and round_2 = ref [] in
      for _ = 1 to n_pushed do
        expect "pushed";
        let first = number "a class" in
        let second = number "a class" in
        let of_first = number "a multiplier" in
        let of_second = number "a multiplier" in
        round_1 := { first; second; of_first; of_second; pushed_limit = limit () } :: !round_1
      done;
      for _ = 1 to n_beaten do
        expect "beaten";
        let by_class = number "a class" in
        let of_duel = number "a multiplier" in
        let beaten_limit = limit () in
        let others = ref [] in
        for _ = 1 to count "the number of other classes" do
          let x = number "a class" in
          let multiplier = number "a multiplier" in
          others := (x, multiplier) :: !others
        done;
        round_2 := { by_class; of_duel; of_others = List.rev !others; beaten_limit } :: !round_2
      done;
      let claim = { elected; withstood; round_1 = List.rev !round_1; round_2 = List.rev !round_2 } in
      if not (valid_rankings setting rankings) then bad "the rankings are not of %d members over %d classes." n k;
      if not (valid_run_off setting claim) then bad "the prediction must be one of the %d classes." k;
      check_run_off setting rankings claim)

let ballots () =
  let k, ballot_labels = class_labels () in
  expect "rule";
  let both_sides = one_of "the rule" [ ("two-sided", true); ("one-sided", false) ] in
  expect "sizes";
  let class_sizes = numbers k "a class size" in
  expect "totals";
  let class_totals = numbers k "a number of training samples" in
  let setting = { ballot_labels; ballot_classes = Integer.of_int k; both_sides; class_sizes; class_totals } in
  each_sample (fun () ->
      let prediction = number "the prediction" in
      let radius = number "the radius" in
      expect "near";
      let near = numbers k "a number of near samples" in
      if not (valid_ballots setting near) then bad "more samples of a class are near than there are.";
      if Integer.geq prediction (Integer.of_int k) then bad "the prediction must be one of the %d classes." k;
      check_ballots setting near prediction radius)

let neighbours () =
  let k, neighbour_labels = class_labels () in
  expect "voters";
  let n_voters = number "the number of voters" in
  expect "training";
  let n_training = number "the number of training samples" in
  let setting = { neighbour_labels; neighbour_classes = Integer.of_int k; n_voters; n_training } in
  each_sample (fun () ->
      let prediction = number "the prediction" in
      let radius = number "the radius" in
      expect "labels";
      let shown = Integer.min n_training (Integer.add n_voters radius) in
      if Integer.gt shown (Integer.of_int most) then bad "more than %d labels are not read." most;
      let shown = numbers (Integer.to_int shown) "a label" in
      if not (valid_neighbours setting radius shown) then bad "a label is none of the %d classes." k;
      if Integer.geq prediction (Integer.of_int k) then bad "the prediction must be one of the %d classes." k;
      check_neighbours setting shown prediction radius)

let () =
  let give_up code words =
    flush stdout;
    prerr_endline ("poisonproof-check: " ^ words);
    exit code
  in
  try
    (match Sys.argv with
    | [| _ |] -> ()
    | [| _; "--version" |] ->
        print_endline "poisonproof-check, witness format 1";
        exit 0
    | [| _; path |] -> (
        try channel := open_in_bin path with Sys_error words -> bad "%s" words)
    | _ -> bad "one argument is the witness file; without any, it is read from standard input.");
    set_binary_mode_in !channel true;
    expect "poisonproof";
    expect "witness";
    expect "1";
    (match one_of "the kind of voters" [ ("ensemble", `Ensemble); ("run-off", `Run_off); ("ballots", `Ballots); ("neighbours", `Neighbours) ] with
    | `Ensemble -> ensemble ()
    | `Run_off -> run_off ()
    | `Ballots -> ballots ()
    | `Neighbours -> neighbours ());
    Printf.printf "%d samples: %d accepted, %d refused\n" (!accepted + !refused) !accepted !refused;
    exit (if !refused > 0 then 3 else 0)
  with
  | Bad words -> give_up 2 words
  | Sys_error words -> give_up 2 words
  | Stack_overflow -> give_up 4 "the stack is too small for lists of this length; try again after 'ulimit -s unlimited'."
  | Out_of_memory -> give_up 4 "there is not enough memory."
