// kda_layer: Kimi Delta Attention with its projections, convolutions and norms (kda.md §5,
// references/blocks/kda_layer.hpp).
//   in   x [B,T,D], params/..., attention_mask [B,T] (mask=1: zeroes padded hidden states)
//   out  y [B,T,D]; prefill=P: also the states after P tokens and at the end, and y of P tokens and
//   then one by one
// Options: gate=lower|softplus, lb (-5), forget=low|full, output=full|low, gbias=1 (of g_b_proj),
// cbias=1 (of the convolutions),
//   beta=2 (its scale), eps (1e-5, of o_norm), mask=1, prefill=P, taps=1. A packed T resets
//   convolution and state.
// Sizes: B T D H HV K V, W (4) taps, F and G the widths inside the low-rank maps (K).
#include "references/blocks/kda_layer.hpp"

#include "harness/text.hpp"
#include "references/blocks/stored.hpp"
#include "references/blocks/unit_op.hpp"

namespace parity::net {
namespace {

constexpr double kUsualEps = 1e-5, kUsualBound = -5;

struct Shapes {
  std::int64_t B, T, D, H, HV, K, V, W, F, G;
};
Shapes shapes(const Case& c) {
  const Sizes& s = c.sizes;
  const std::int64_t H = s["H"], K = s["K"];
  return {s.get("B", 1), s["T"],        s["D"],       H, s.get("HV", H), K, s.get("V", K),
          s.get("W", 4), s.get("F", K), s.get("G", K)};
}

KdaLayer layer_of(const Case& c) {
  const Shapes s = shapes(c);
  return {.H = s.H,
          .HV = s.HV,
          .K = s.K,
          .V = s.V,
          .lower = c.options.get("gate", "lower") == "lower",
          .bound = c.options.real("lb", kUsualBound),
          .full_forget = c.options.get("forget", "low") == "full",
          .low_output = c.options.get("output", "full") == "low",
          .beta_scale = c.options.real("beta", 1),
          .norm_eps = c.options.real("eps", kUsualEps),
          .starts = unit::sequence_starts(c)};
}

// Parameters, by name and shape, in the order of the released state dict.
std::vector<TensorSpec> parameters(const Case& c) {
  const Shapes s = shapes(c);
  const KdaLayer l = layer_of(c);
  const std::int64_t QK = s.H * s.K, VV = s.HV * s.V, GG = s.HV * s.K;
  const Dtype wide = c.dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32;
  std::vector<TensorSpec> specs;
  const auto add = [&](std::string name, std::vector<Dim> dims, Dtype dtype) {
    specs.push_back({.name = "params/" + name, .dtype = dtype, .dims = std::move(dims)});
  };
  const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {{"O", out}, {"D", in}}, c.dtype);
  };
  add("A_log", {{"HV", s.HV}}, wide);
  add("dt_bias", {{"C", GG}}, wide);
  matrix("q_proj", QK, s.D);
  matrix("k_proj", QK, s.D);
  matrix("v_proj", VV, s.D);
  for (const auto& [name, channels] :
       {std::pair<const char*, std::int64_t>{"q_conv1d", QK}, {"k_conv1d", QK}, {"v_conv1d", VV}}) {
    add(std::string(name) + ".weight", {{"C", channels}, {"O", 1}, {"W", s.W}}, c.dtype);
    if (c.options.flag("cbias")) add(std::string(name) + ".bias", {{"C", channels}}, c.dtype);
  }
  if (l.full_forget) {
    matrix("f_proj", GG, s.D);
  } else {
    matrix("f_a_proj", s.F, s.D);
    matrix("f_b_proj", GG, s.F);
  }
  matrix("b_proj", s.HV, s.D);
  if (l.low_output) {
    matrix("g_a_proj", s.G, s.D);
    matrix("g_b_proj", VV, s.G);
    if (c.options.flag("gbias")) add("g_b_proj.bias", {{"C", VV}}, c.dtype);
  } else {
    matrix("g_proj", VV, s.D);
  }
  add("o_norm.weight", {{"V", s.V}}, c.dtype);
  matrix("o_proj", s.D, VV);
  return specs;
}

std::vector<Dim> hidden(const Case& c) {
  const Shapes s = shapes(c);
  return {{"B", s.B}, {"T", s.T}, {"D", s.D}};
}

std::vector<TensorSpec> inputs(const Case& c) {
  const Shapes s = shapes(c);
  std::vector<TensorSpec> specs = {{.name = "x", .dtype = c.dtype, .dims = hidden(c)}};
  if (c.options.flag("mask"))
    specs.push_back(
        {.name = "attention_mask", .dtype = Dtype::I64, .dims = {{"B", s.B}, {"T", s.T}}});
  for (TensorSpec& spec : parameters(c)) specs.push_back(std::move(spec));
  specs.push_back(
      {.name = "cotangents/y", .role = Role::Cotangent, .dtype = c.dtype, .dims = hidden(c)});
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const Shapes s = shapes(c);
  const Dtype wide = c.dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32;
  std::vector<TensorSpec> specs = {
      {.name = "y", .role = Role::Output, .dtype = c.dtype, .dims = hidden(c)}};
  if (c.options.integer("prefill", 0) > 0) {
    const std::vector<Dim> conv = {{"N", s.B}, {"C", 2 * s.H * s.K + s.HV * s.V}, {"W", s.W}};
    const std::vector<Dim> state = {{"N", s.B}, {"HV", s.HV}, {"K", s.K}, {"V", s.V}};
    specs.push_back(
        {.name = "y_by_steps", .role = Role::Output, .dtype = c.dtype, .dims = hidden(c)});
    for (const char* when : {"", "_after_prefill"}) {
      specs.push_back({.name = std::string("conv_state") + when,
                       .role = Role::State,
                       .dtype = c.dtype,
                       .dims = conv});
      specs.push_back({.name = std::string("recurrent_state") + when,
                       .role = Role::State,
                       .dtype = wide,
                       .dims = state});
    }
  }
  if (c.options.flag("taps")) {
    const std::vector<Dim> qk = {{"B", s.B}, {"T", s.T}, {"H", s.H}, {"K", s.K}};
    const std::vector<Dim> v = {{"B", s.B}, {"T", s.T}, {"HV", s.HV}, {"V", s.V}};
    const std::vector<Dim> g = {{"B", s.B}, {"T", s.T}, {"HV", s.HV}, {"K", s.K}};
    const std::vector<Dim> beta = {{"B", s.B}, {"T", s.T}, {"HV", s.HV}};
    for (const auto& [name, dims] :
         {std::pair{"q", qk}, {"k", qk}, {"v", v}, {"g", g}, {"beta", beta}, {"o", v}})
      specs.push_back({.name = std::string("tap/") + name,
                       .role = Role::Output,
                       .dtype = c.dtype,
                       .dims = dims});
  }
  specs.push_back(
      {.name = "grads/inputs/x", .role = Role::Gradient, .dtype = c.dtype, .dims = hidden(c)});
  for (const TensorSpec& p : parameters(c))
    specs.push_back({.name = "grads/" + p.name,
                     .role = Role::Gradient,
                     .dtype = p.dtype,
                     .dims = p.dims,
                     .parameter = p.name.substr(7)});
  return specs;
}

bool derive(const Case& c, Tensor& tensor) {  // left padding: row b begins with b padded tokens
  if (tensor.spec.name != "attention_mask") return false;
  const std::int64_t T = c.sizes["T"];
  const std::span<std::int64_t> mask = tensor.as<std::int64_t>();
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    mask[i] = at % T >= 2 * (at / T) ? 1 : 0;
  }
  return true;
}

std::string refuses(const Case& c) {
  static const std::vector<std::string> known = {
      "gate", "lb", "forget", "output", "gbias", "cbias", "beta", "eps", "mask", "prefill", "taps"};
  for (const auto& [name, value] : c.options.map())
    if (std::ranges::find(known, name) == known.end())
      return "kda_layer has no option '" + name + "'";
  const Size* T = c.sizes.find("T");
  if (T != nullptr && !T->parts.empty() && c.sizes.get("B", 1) != 1)
    return "packed sequences need B = 1";
  const Shapes s = shapes(c);
  if (s.HV % s.H != 0) return "value heads are no multiple of heads";
  const std::int64_t prefill = c.options.integer("prefill", 0);
  if (prefill < 0 || prefill >= s.T) return "prefill lies outside the sequence";
  if (prefill > 0 && s.B != 1) return "steps are of one sequence";
  return "";
}

// Tokens [first, last) of one sequence.
template <class T>
Array<T> tokens(const Array<T>& x, std::int64_t first, std::int64_t last) {
  Array<T> part({last - first, x.width()});
  std::copy(x.row(first).begin(), x.row(first).begin() + part.count(), part.data.begin());
  return part;
}

template <class T>
void by_steps(Run<T>& run, const Array<T>& x, KdaLayer l) {
  const std::int64_t prefill = run.options().integer("prefill", 0);
  Array<T> y(x.shape);
  KdaStates<T> states;
  for (std::int64_t first = 0, last = prefill; first < x.rows(); first = last, ++last) {
    l.starts = {0, last - first};
    KdaTrace<T> t = kda_layer(run, tokens(x, first, last), l, first == 0 ? nullptr : &states);
    states = std::move(t.states);
    std::copy(t.y.data.begin(), t.y.data.end(), y.row(first).begin());
    if (first > 0) continue;
    run.put("conv_state_after_prefill", states.conv);
    run.put("recurrent_state_after_prefill", states.recurrent);
  }
  run.put("y_by_steps", std::move(y));
  run.put("conv_state", std::move(states.conv));
  run.put("recurrent_state", std::move(states.recurrent));
}

template <class T>
void formulas(Run<T>& run) {
  const Shapes s = shapes(run.problem());
  const KdaLayer l = layer_of(run.problem());
  Array<T> x = run.in("x").as({s.B * s.T, s.D});
  std::vector<std::int64_t> mask;
  const auto masked = [&](Array<T>& rows) {
    for (std::size_t r = 0; r < mask.size(); ++r)
      if (mask[r] == 0) std::ranges::fill(rows.row(static_cast<std::int64_t>(r)), T{0});
  };
  if (run.has("attention_mask") && !run.fault("P-mask-ignored")) mask = run.ids("attention_mask");
  masked(x);
  const KdaTrace<T> t = kda_layer(run, x, l);
  run.put("y", t.y);
  if (run.options().integer("prefill", 0) > 0) by_steps(run, x, l);
  run.put("tap/q", t.convolved[0]);
  run.put("tap/k", t.convolved[1]);
  run.put("tap/v", t.convolved[2]);
  run.put("tap/g", t.core.g);
  run.put("tap/beta", t.core.beta);
  run.put("tap/o", t.o);
  if (!run.wants_gradients()) return;
  Array<T> dx = kda_layer_backward(run, x, t, run.in("cotangents/y").as(x.shape), l);
  masked(dx);
  run.grad("inputs/x", dx);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(outputs(c), kFormulas, c, tensors, gradients);
}
Evaluation base(const BaseRequest& r) { return evaluation_of(outputs(r.problem), kFormulas, r); }

// Parameters as flash-linear-attention and transformers name them. transformers convolves q, k and
// v at once.
std::string stored_name(const StoredCase& stored, const Shapes& s, const std::string& ours) {
  if (ours == "x") return "hidden_states";
  if (ours.starts_with("outputs/") || ours.starts_with("cotangents/")) {
    const std::size_t at = ours.find("/y");
    if (at != std::string::npos) return ours.substr(0, at) + "/output" + ours.substr(at + 2);
    if (ours.starts_with("outputs/tap/")) return "intermediates/" + ours.substr(12);
    return ours;
  }
  if (!ours.starts_with("params/")) return ours;
  const std::string name = ours.substr(7);
  const auto or_else = [&](const std::string& theirs) {
    return holds(stored, "inputs/" + theirs) ? theirs : name;
  };
  const std::int64_t QK = s.H * s.K, VV = s.HV * s.V;
  if (holds(stored, "inputs/conv1d.weight") && name.find("_conv1d.") != std::string::npos) {
    const std::int64_t first = name[0] == 'q' ? 0 : name[0] == 'k' ? QK : 2 * QK;
    const std::int64_t count = name[0] == 'v' ? VV : QK;
    return "conv1d." + name.substr(name.find('.') + 1) + "[" + std::to_string(first) + ":" +
           std::to_string(first + count) + "]";
  }
  for (const auto& [mine, theirs] : {std::pair{"f_a_proj", "f_proj.0"},
                                     {"f_b_proj", "f_proj.1"},
                                     {"g_a_proj", "g_proj.0"},
                                     {"g_b_proj", "g_proj.1"}})
    if (name.starts_with(mine)) {
      const std::string fla = theirs + name.substr(std::string_view(mine).size());
      if (holds(stored, "inputs/" + fla)) return fla;
    }
  return or_else("forget_gate." + name);
}

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "kda_layer";
  const std::string precision = stored_text(stored, "compute_dtype", "float64");
  c.dtype = parse_dtype(precision);
  const auto size = [&](const char* name) { return stored_integer(stored, name, 1); };
  Size T{"T", size("T"), {}};
  if (holds(stored, "inputs/cu_seqlens")) {
    const std::vector<double> cu = stored.read("inputs/cu_seqlens").widened();
    for (std::size_t i = 0; i + 1 < cu.size(); ++i)
      T.parts.push_back(static_cast<std::int64_t>(cu[i + 1] - cu[i]));
  }
  const auto rows_of = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (const std::string path = std::string("inputs/") + name; holds(stored, path))
        return stored_shape(stored, path).at(0);
    return std::int64_t{0};
  };
  const std::int64_t F =
      rows_of({"f_a_proj.weight", "forget_gate.f_a_proj.weight", "f_proj.0.weight"});
  const std::int64_t G = rows_of({"g_a_proj.weight", "g_proj.0.weight"});
  c.sizes =
      Sizes{{"B", size("B"), {}},           T,
            {"D", size("hidden_size"), {}}, {"H", size("H"), {}},
            {"HV", size("HV"), {}},         {"K", size("K"), {}},
            {"V", size("V"), {}},           {"W", stored_integer(stored, "conv_width", 4), {}}};
  if (F > 0) c.sizes.set({"F", F, {}});
  if (G > 0) c.sizes.set({"G", G, {}});
  const std::string gate = stored_text(stored, "gate_variant");
  if (gate != "lower_bound" && gate != "softplus") {
    imported.unsupported = "gate '" + gate + "'";
    return imported;
  }
  if (gate == "softplus") c.options.set("gate", "softplus");
  const auto set_real = [&](const char* option, const char* attribute, double usual) {
    if (const double x = stored_real(stored, attribute, usual); x != usual)
      c.options.set(option, shortest(x));
  };
  if (gate == "lower_bound") set_real("lb", "lower_bound", kUsualBound);
  set_real("beta", "beta_scale", 1);
  set_real("eps", "o_norm_eps", kUsualEps);
  if (F == 0) c.options.set("forget", "full");
  if (G > 0) c.options.set("output", "low");
  if (holds(stored, "inputs/g_proj.1.bias") || holds(stored, "inputs/g_b_proj.bias"))
    c.options.set("gbias", "1");
  if (holds(stored, "inputs/q_conv1d.bias") || holds(stored, "inputs/conv1d.bias"))
    c.options.set("cbias", "1");
  if (holds(stored, "inputs/attention_mask")) c.options.set("mask", "1");
  if (holds(stored, "outputs/output_by_steps")) {
    const std::string note = stored_text(stored, "note");  // "output_by_steps: prefill 6, then ..."
    const std::size_t at = note.find("prefill ");
    const std::string rest = at == std::string::npos ? "" : note.substr(at + 8);
    const std::string prefill = rest.substr(0, rest.find_first_not_of("0123456789"));
    if (prefill.empty()) {
      imported.unsupported = "steps without a note of how many tokens came first";
      return imported;
    }
    c.options.set("prefill", prefill);
  }
  c.options.set("taps", "1");
  const Shapes s = shapes(c);
  import_composite(stored, registry().op_or_throw(c.op), imported,
                   [&](const std::string& ours) { return stored_name(stored, s, ours); });
  return imported;
}

const Register op{OpDef{
    .name = "kda_layer",
    .what = "o_proj(rms_norm(kda(conv(x W))) sigmoid(gate))",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"Kimi Linear (arXiv 2510.26692)", "flash-linear-attention fla/layers/kda.py",
                "transformers models.kimi_linear, glm5_next, bailing_hybrid"},
    .inputs = inputs,
    .outputs = outputs,
    .derive = derive,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .contract = composite_contract,
    .import = import_case,
    .faults = {{"P-conv-leak", "", "the convolution reaches into the sequence before"},
               {"P-conv-reversed", "", "taps of the convolution in reverse"},
               {"P-silu-slope", "", "slope of SiLU without z sigmoid'"},
               {"P-kda-leak", "", "state carried into the next packed document"},
               {"P-kda-no-delta", "", "the prediction is not subtracted"},
               {"P-kda-scale-v", "", "scale from the value dimension"},
               {"P-l2-mean", "", "eps of the norm of q and k added to the mean, not the sum"},
               {"P-gate-no-bias", "", "dt_bias left out"},
               {"P-gate-no-A", "", "A_log ignored"},
               {"P-gate-swish", "", "gate * sigmoid(gate) in place of sigmoid(gate)"},
               {"P-beta-scale", "", "beta not doubled where negative eigenvalues are allowed"},
               {"P-mask-ignored", "", "padded hidden states are not zeroed"}},
}};

const Register bound{BoundDef{.op = "kda_layer", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net
