#include "references/decoder/taps.hpp"

#include "references/blocks/layers.hpp"
#include "references/blocks/mla_parts.hpp"
#include "references/decoder/problem.hpp"

namespace parity::net {
namespace {

// The order in which the case names a layer's slots; ascending ids without one.
template <class T>
std::vector<std::int64_t> order_of(Run<T>& run, std::int64_t l) {
  if (!run.options().flag("order")) return {};
  return run.ids("order/layer" + std::to_string(l));
}

}  // namespace

template <class T>
Turns<T> turns_of(Run<T>& run, const Decoder& d) {
  if (d.mla.rope.pairs == Rope::Pairs::None) return {};
  std::vector<std::int64_t> positions;
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t t = 0; t < d.tokens; ++t) positions.push_back(t);
  return turns_at(run, positions, d.mla.rotary, d.mla.rope);
}

template <class T>
void put_taps(Run<T>& run, const DecoderForward<T>& f, const std::string& at) {
  for (std::size_t l = 0; l < f.layers.size(); ++l) {
    const DecoderLayer<T>& t = f.layers[l];
    const std::string layer = at + "tap/layer" + std::to_string(l) + ".";
    run.put(layer + "attn", t.attn);
    run.put(layer + "attn_read", t.attn_read);
    run.put(layer + "ffn_read", t.ffn_read);
    run.put(layer + "prefix", t.prefix);
    run.put(layer + "hidden", t.prefix);
    run.put(layer + "bank", t.bank);
    if (t.moe.routing.ids.empty()) continue;
    run.put(layer + "scores", t.moe.routing.scores);
    const Array<T> ids = numbers<T>(t.moe.routing.ids, t.moe.routing.weights.shape);
    const auto n = static_cast<std::int64_t>(l);
    run.put(layer + "expert_ids", arranged(t.moe.routing, ids, order_of(run, n)));
    run.put(layer + "route_weights",
            arranged(t.moe.routing, t.moe.routing.weights, order_of(run, n)));
    run.put(layer + "routed_sum", t.moe.mixture.sum);
  }
  run.put(at + "tap/output_read", f.output_read);
}

template <class T>
void put_tap_gradients(Run<T>& run, const DecoderForward<T>& f, const DecoderGradients<T>& d,
                       const std::string& at) {
  for (std::size_t l = 0; l < d.layers.size(); ++l) {
    const DecoderLayerGradients<T>& g = d.layers[l];
    const std::string layer = at + "tap/layer" + std::to_string(l) + ".";
    run.grad(layer + "attn", g.attn);
    run.grad(layer + "attn_read", g.attn_read);
    run.grad(layer + "ffn_read", g.ffn_read);
    if (!run.options().flag("isolated")) {  // there they are given
      run.grad(layer + "prefix", g.prefix);
      run.grad(layer + "hidden", g.prefix);
      if (g.bank.count() > 0) run.grad(layer + "bank", g.bank);
    }
    const MoeLayer<T>& moe = f.layers[l].moe;
    if (moe.routing.ids.empty()) continue;
    run.grad(layer + "route_weights",
             arranged(moe.routing, g.moe.weights, order_of(run, static_cast<std::int64_t>(l))));
    run.grad(layer + "routed_sum", g.moe.sum);
  }
  run.grad(at + "tap/output_read", d.output_read);
}

template <class T>
void settle_empty(Run<T>& run, const DecoderForward<T>& f) {
  if (run.options().get("empty", "zero") == "none") return;
  for (std::size_t l = 0; l < f.layers.size(); ++l) {
    const std::vector<std::int64_t>& load = f.layers[l].moe.routing.load;
    for (std::size_t e = 0; e < load.size(); ++e)
      for (const char* w : {"w1", "w2", "w3"}) {
        if (load[e] != 0) continue;
        const std::string name = Decoder::layer(static_cast<std::int64_t>(l)) +
                                 "block_sparse_moe.experts." + std::to_string(e) + "." + w +
                                 ".weight";
        run.param_grad(name, Array<T>(run.param(name).shape));
      }
  }
}

#define PARITY_INSTANTIATE(T)                                                                    \
  template Turns<T> turns_of(Run<T>&, const Decoder&);                                           \
  template void put_taps(Run<T>&, const DecoderForward<T>&, const std::string&);                 \
  template void put_tap_gradients(Run<T>&, const DecoderForward<T>&, const DecoderGradients<T>&, \
                                  const std::string&);                                           \
  template void settle_empty(Run<T>&, const DecoderForward<T>&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
