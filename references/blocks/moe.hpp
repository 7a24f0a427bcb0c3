// A mixture of experts given its routing (k3.md §3.1, §3.3), by tokens T, choices k, width W (the
// latent width, or the model's) and expert width F. Expert e, on the tokens that chose it:
//   h = unit(z W1^T, z W3^T),  E_e(z) = h W2^T;      u = sum over the chosen e of w_e E_e(z)
// summed in ascending order of e, wide. A contract that rounds at "combine" stores each product
// w_e E_e and each partial sum too (k3.md §3.3: the common torchtitan layer; the released code and
// the eager one sum wide, in the order of slots and of experts).
// Backward: dE_e = w_e du, dw_e = du . E_e, then through each expert; experts without a token have
// gradients of zero.
#pragma once

#include <string>

#include "references/blocks/layers.hpp"
#include "references/blocks/router.hpp"

namespace parity::net {

struct Experts {
  std::string prefix =
      "experts.";  // <prefix><e>.w1.weight [F,W], .w3.weight [F,W], .w2.weight [W,F]
  Unit unit = {};
};

template <class T>
struct Mixture {
  Array<T> sum;      // [T,W]
  Array<T> by_slot;  // [T k,W]: each chosen expert's output
};
template <class T>
Mixture<T> experts(Run<T>&, const Array<T>& z, const Routing<T>&, const Experts&);

template <class T>
struct MixtureGradients {
  Array<T> z;        // [T,W]
  Array<T> weights;  // [T,k]
};
template <class T>
MixtureGradients<T> experts_backward(Run<T>&, const Array<T>& z, const Routing<T>&,
                                     const Mixture<T>&, const Array<T>& d_sum, const Experts&);

// The faults of a gated unit, of experts and of dense layers alike.
template <class T>
Mlp maybe_wrong(const Run<T>&, Mlp);

// The whole layer (k3.md §3.1). latent: y = norm(u) up(...), else y = u; shared: + mlp(x).
struct Moe {
  std::string prefix = "";  // of every parameter, "model.layers.1.block_sparse_moe."
  RouterRule rule = {};
  Experts experts = {};  // its prefix follows that of the layer
  bool latent = true, norm = true, shared = true;
  double norm_eps = 1e-5;
};
template <class T>
struct MoeLayer {
  Routing<T> routing;
  Mixture<T> mixture;
  Array<T> latent, normed, routed, shared, y;  // of [T, latent or model width]
};
template <class T>
MoeLayer<T> moe(Run<T>&, const Array<T>& x, const Moe&);

template <class T>
struct MoeGradients {
  Array<T> x, latent, normed, sum, weights;  // sum: of u
  RouterGradients<T> router;
};
template <class T>
MoeGradients<T> moe_backward(Run<T>&, const Array<T>& x, const MoeLayer<T>&, const Array<T>& dy,
                             const Moe&);

}  // namespace parity::net
