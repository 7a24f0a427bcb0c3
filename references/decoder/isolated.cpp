#include "references/decoder/isolated.hpp"

#include <algorithm>

#include "references/blocks/layers.hpp"
#include "references/decoder/problem.hpp"
#include "references/decoder/taps.hpp"

namespace parity::net {
namespace {

constexpr const char* kTable = "model.embed_tokens.weight";

// Where layer l finds its stream, l = L: the head.
std::string entrance(const Case& c, std::int64_t l) {
  return l == c.sizes["L"] ? "at/output." : "at/layer" + std::to_string(l) + ".";
}
std::string exit_of(std::int64_t l) { return "tap/layer" + std::to_string(l) + "."; }

// Entries of the bank behind layer l.
std::int64_t entries(const Decoder& d, std::int64_t l) {
  return d.residual_reads() ? l / d.block + 1 : 0;
}

// The two tensors of a stream behind layer l.
void add_stream(const Case& c, const std::string& at, std::int64_t l, Role role,
                std::vector<TensorSpec>& specs) {
  const std::int64_t B = c.sizes.get("B", 1), T = c.sizes["T"], D = c.sizes["D"],
                     N = entries(decoder_config(c), l);
  const auto add = [&](const char* what, std::vector<Dim> dims) {
    specs.push_back({.name = at + what, .role = role, .dtype = c.dtype, .dims = std::move(dims)});
  };
  if (N > 0) add("bank", {{"R", B * T}, {"N", N}, {"D", D}});
  add("prefix", {{"B", B}, {"T", T}, {"D", D}});
}

template <class T>
Stream<T> stream_at(Run<T>& run, const std::string& at, std::int64_t R, std::int64_t D) {
  const Array<T> none({R, 0, D});
  return {run.has(at + "bank") ? run.in(at + "bank") : none, run.in(at + "prefix").as({R, D})};
}

void put(Tensors& tensors, const std::string& at, const Stream<double>& s) {
  for (const auto& [what, values] : {std::pair("bank", &s.bank), std::pair("prefix", &s.prefix)})
    if (Tensor* tensor = tensors.find(at + what)) *tensor = make_tensor(tensor->spec, values->data);
}

}  // namespace

std::string isolated_refuses(const Case& c) {
  const Options& o = c.options;
  const bool text = !o.flag("three") && !has_images(c);
  if (o.flag("isolated") && (!text || !o.flag("taps") || o.flag("loss") || o.flag("order")))
    return "layers by themselves have taps, and a cotangent of the logits of text";
  return o.flag("replay") && !text ? "a choice of experts is replayed for text only" : "";
}

std::vector<TensorSpec> isolated_inputs(const Case& c) {
  std::vector<TensorSpec> specs;
  for (std::int64_t l = 0; l < c.sizes["L"]; ++l)
    add_stream(c, entrance(c, l + 1), l, Role::Input, specs);
  for (std::int64_t l = 0; l < c.sizes["L"]; ++l)
    add_stream(c, "cotangents/" + exit_of(l), l, Role::Cotangent, specs);
  return specs;
}

std::vector<TensorSpec> isolated_gradients(const Case& c) {
  std::vector<TensorSpec> specs;
  for (std::int64_t l = 0; l < c.sizes["L"]; ++l)
    add_stream(c, "grads/inputs/" + entrance(c, l + 1), l, Role::Gradient, specs);
  return specs;
}

void decoder_complete(const Case& c, Tensors& tensors) {
  const bool alone = c.options.flag("isolated");
  if (!alone && !c.options.flag("replay")) return;
  Run<double> run(c, tensors, alone);
  Decoder d = decoder_config(c);
  d.replay = false;  // here it is found
  const DecoderForward<double> f =
      decoder(run, embedding(run, run.ids("tokens"), kTable), d, turns_of(run, d));
  for (std::size_t l = 0; l < f.layers.size(); ++l)
    if (Tensor* ids = tensors.find("ids/layer" + std::to_string(l)))
      std::ranges::copy(f.layers[l].moe.routing.ids, ids->as<std::int64_t>().begin());
  if (!alone) return;
  const DecoderLayer<double>& last = f.layers.back();
  Array<double> d_output_read;
  Stream<double> back =
      decoder_head_backward(run, {last.bank, last.prefix}, f,
                            run.in("cotangents/logits").as(f.logits.shape), d, d_output_read);
  for (std::int64_t l = c.sizes["L"] - 1; l >= 0; --l) {
    const DecoderLayer<double>& layer = f.layers[static_cast<std::size_t>(l)];
    put(tensors, entrance(c, l + 1), {layer.bank, layer.prefix});
    put(tensors, "cotangents/" + exit_of(l), back);
    decoder_layer_backward(run, layer, back, d, l, f.rows);
  }
}

template <class T>
void isolated(Run<T>& run) {
  const Case& c = run.problem();
  const Decoder d = decoder_config(c);
  const std::int64_t L = c.sizes["L"];
  const std::vector<std::int64_t> tokens = run.ids("tokens");
  const Array<T> embeddings = embedding(run, tokens, kTable);
  const std::int64_t R = embeddings.rows(), D = embeddings.width();
  DecoderForward<T> f;
  f.rows = decoder_rows(d, turns_of(run, d));
  for (std::int64_t l = 0; l < L; ++l)
    f.layers.push_back(decoder_layer(
        run,
        l == 0 ? Stream<T>{Array<T>({R, 0, D}), embeddings} : stream_at(run, entrance(c, l), R, D),
        d, l, f.rows));
  const Stream<T> last = stream_at(run, entrance(c, L), R, D);
  static_cast<DecoderHead<T>&>(f) = decoder_head(run, last, d);
  run.put("logits", f.logits);
  put_taps(run, f, "");
  if (!run.wants_gradients()) return;

  DecoderGradients<T> g;
  Stream<T> back = decoder_head_backward(
      run, last, f, run.in("cotangents/logits").as(f.logits.shape), d, g.output_read);
  const auto put_back = [&](std::int64_t l) {
    if (back.bank.count() > 0) run.grad("inputs/" + entrance(c, l) + "bank", back.bank);
    run.grad("inputs/" + entrance(c, l) + "prefix", back.prefix);
  };
  put_back(L);
  g.layers.resize(f.layers.size());
  for (std::int64_t l = L - 1; l >= 0; --l) {
    const auto i = static_cast<std::size_t>(l);
    back = stream_at(run, "cotangents/" + exit_of(l), R, D);
    g.layers[i] = decoder_layer_backward(run, f.layers[i], back, d, l, f.rows);
    if (l > 0) put_back(l);
  }
  embedding_backward(run, tokens, back.prefix, kTable);
  put_tap_gradients(run, f, g, "");
  settle_empty(run, f);
}

template void isolated(Run<double>&);
template void isolated(Run<float>&);

}  // namespace parity::net
