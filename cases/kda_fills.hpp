// Data that tells right from wrong for the delta rule: {random, correlated, repeated keys} x {open,
// weak, mixed, saturated, masked, unbounded gates} (kda.md §6.2 and 6.3, tolerance.md §21). Every
// fill serves all forms of the op: gates as they are, or raw ones that make about the same decays;
// unit keys, or raw ones where the kernel normalises.
#pragma once

#include "harness/case.hpp"

namespace parity::kda_cases {

Fill ordinary();   // random keys, moderate gates that differ by head and channel
Fill open_gate();  // gates exactly 0: nothing is forgotten
Fill weak();       // correlated keys, hardly any decay, beta near 1: the inverse matters
Fill repeated();   // one key again and again, beta 1: ill-conditioned
Fill mixed();      // decays from 0 to e^-5 side by side, by channel and head
Fill saturated();  // gates at the lower bound: only the diagonal is left, ranges are at their limit
Fill masked();     // tokens and channels at -1000 among open ones
Fill steep();      // -8 a token in some channels: no product of powers of decays is finite
Fill reflect();    // beta 2: eigenvalue -1
Fill edges();      // beta 0, 1 and 2, zero keys and keys of 1e-3
Fill decades();    // values of v and of the cotangents over six decades
Fill integers();   // exact: small integers, sparse keys, gates 0
Fill signs();      // exact also where intermediates are stored in bf16: values of -1, 0, 1
Fill forgetful();  // exact: the same with decays of 1 and 0
Fill halved();     // exact: the same with decays of 1, 1/2 and 1/4; option halvings
Fill permuted();   // exact: one-hot keys and queries, numbered values

}  // namespace parity::kda_cases
