// short_conv: depthwise causal convolution over tokens, then SiLU.
//   in   x [B,T,D], weight [D,W] (tap W-1 is the current token), bias [D] (option bias=1),
//   initial_state [N,D,W] (h0=1) out  y [B,T,D] = act(sum_w weight[d,w] x[t-W+1+w, d] + bias[d])
//   act=silu (default) or none
//        final_state [N,D,W] (state=1): the last W inputs, slot w = token T-W+w; before a sequence
//        stands its initial state, or zero. A packed T ("T3+0+5") resets at every sequence.
//   backward  dz = dy act'(z);  dx_t = sum_w weight[w] dz[t+W-1-w] + dstate;  dweight[w] = sum_t
//   dz_t x[t-W+1+w];
//             a state slot that outlives a sequence shorter than W passes its gradient straight to
//             the initial state
// Companions count f32 roundoffs; |silu'| <= 1.1, |silu''| <= 0.5.
#include <algorithm>

#include "references/blocks/unit_op.hpp"

namespace parity::unit {
namespace {

Dtype wide(const Case& c) { return c.dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32; }
bool silu(const Case& c) { return c.options.get("act", "silu") == "silu"; }

struct Shapes {
  Dim d = {}, w = {};
  std::vector<Dim> x = {}, weight = {}, state = {};
  bool packed = false, bias = false, h0 = false, state_out = false, dht = false;
};

Shapes shapes(const Case& c) {
  const auto sequences = static_cast<std::int64_t>(sequence_starts(c).size()) - 1;
  Shapes s{.d = {"D", c.sizes["D"]}, .w = {"W", c.sizes.get("W", 4)}};
  s.x = {{"B", c.sizes.get("B", 1)}, {"T", c.sizes["T"]}, s.d};
  s.weight = {s.d, s.w};
  s.state = {{"N", sequences}, s.d, s.w};
  s.packed = !c.sizes.find("T")->parts.empty();
  s.bias = c.options.flag("bias");
  s.h0 = c.options.flag("h0");
  s.dht = c.options.flag("dht");
  s.state_out = c.options.flag("state") || s.dht;
  return s;
}

std::vector<TensorSpec> inputs(const Case& c) {
  const Shapes s = shapes(c);
  std::vector<TensorSpec> specs = {
      {.name = "x", .role = Role::Input, .dtype = c.dtype, .dims = s.x},
      {.name = "weight", .role = Role::Input, .dtype = wide(c), .dims = s.weight}};
  if (s.bias)
    specs.push_back({.name = "bias", .role = Role::Input, .dtype = wide(c), .dims = {s.d}});
  if (s.h0)
    specs.push_back(
        {.name = "initial_state", .role = Role::Input, .dtype = c.dtype, .dims = s.state});
  if (s.packed)
    specs.push_back({.name = "cu_seqlens",
                     .role = Role::Input,
                     .dtype = Dtype::I64,
                     .dims = {{"N", s.state[0].extent + 1}}});
  specs.push_back({.name = "cotangents/y", .role = Role::Cotangent, .dtype = c.dtype, .dims = s.x});
  if (s.dht)
    specs.push_back({.name = "cotangents/final_state",
                     .role = Role::Cotangent,
                     .dtype = c.dtype,
                     .dims = s.state});
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const Shapes s = shapes(c);
  std::vector<TensorSpec> specs = {
      {.name = "y", .role = Role::Output, .dtype = c.dtype, .dims = s.x}};
  if (s.state_out)
    specs.push_back(
        {.name = "final_state", .role = Role::State, .dtype = c.dtype, .dims = s.state});
  specs.push_back({.name = "grads/x", .role = Role::Gradient, .dtype = c.dtype, .dims = s.x});
  specs.push_back({.name = "grads/weight",
                   .role = Role::Gradient,
                   .dtype = wide(c),
                   .dims = s.weight,
                   .parameter = "weight"});
  if (s.bias)
    specs.push_back({.name = "grads/bias",
                     .role = Role::Gradient,
                     .dtype = wide(c),
                     .dims = {s.d},
                     .parameter = "bias"});
  if (s.h0)
    specs.push_back(
        {.name = "grads/initial_state", .role = Role::Gradient, .dtype = c.dtype, .dims = s.state});
  return specs;
}

std::string refuses(const Case& c) {
  for (const auto& [name, value] : c.options.map())
    if (name != "act" && name != "bias" && name != "h0" && name != "state" && name != "dht")
      return "short_conv has no option '" + name + "'";
  const std::string act = c.options.get("act", "silu");
  if (act != "silu" && act != "none") return "no activation '" + act + "'";
  const Size* T = c.sizes.find("T");
  if (T != nullptr && !T->parts.empty() && c.sizes.get("B", 1) != 1)
    return "packed sequences need B = 1";
  return c.sizes.get("W", 4) < 1 ? "a filter needs a tap" : "";
}

// One channel of one sequence, with its history in front: element W + t is token t.
template <class T>
struct Line {
  std::vector<T> x = {}, dx = {}, weight = {}, dweight = {};
  T bias = 0, dbias = 0;
};

template <class T>
T slope(T z, T s, std::string_view fault) {
  return fault == "P-silu-slope" ? s : s * (1 + z * complement(z, s));
}

// Forward and backward of tokens [0, n) of a line; y and dy are of the tokens alone.
template <class T>
void convolve(Line<T>& line, std::span<T> y, std::span<const T> dy, bool act, Vary& vary,
              std::string_view fault) {
  const std::size_t W = line.weight.size();
  std::vector<std::vector<T>> dweight_terms(W);
  std::vector<T> terms, dz_t;
  for (std::size_t t = 0; t < y.size(); ++t) {
    terms.clear();
    for (std::size_t w = 0; w < W; ++w) terms.push_back(vary(line.weight[w] * line.x[t + 1 + w]));
    terms.push_back(line.bias);
    const T z = vary(vary.sum(terms));
    const T s = act ? sigmoid(z) : T{1};
    y[t] = act ? z * vary(s) : z;
    const T dz = vary(act ? dy[t] * slope(z, s, fault) : dy[t]);
    for (std::size_t w = 0; w < W; ++w) {
      line.dx[t + 1 + w] += vary(line.weight[w] * dz);
      dweight_terms[w].push_back(dz * line.x[t + 1 + w]);
    }
    dz_t.push_back(fault == "P-dbias-bf16"
                       ? static_cast<T>(round_to(Dtype::BF16, static_cast<double>(dz)))
                       : dz);
  }
  for (std::size_t w = 0; w < W; ++w) line.dweight[w] += vary.sum(dweight_terms[w]);
  line.dbias += vary.sum(dz_t);
}

// Where the gradient of slot w of the final state goes: an element of the line (history, then
// tokens).
std::size_t line_of_slot(std::size_t w, std::size_t n, std::size_t W, std::string_view fault) {
  const std::size_t right = n + w;
  if (fault != "A-CV02" || n >= W - 1 || right < W) return right;
  return std::min(right + 1, n + W - 1);  // index from a clamped start
}

template <class T>
Results<T> evaluate(const Case& c, const Tensors& tensors, Vary vary, std::string_view fault) {
  const Shapes s = shapes(c);
  const auto D = static_cast<std::size_t>(s.d.extent);
  const auto W = static_cast<std::size_t>(s.w.extent);
  const std::vector<std::int64_t> starts = sequence_starts(c);
  const auto optional = [&](bool there, std::string_view name) {
    return there ? widened<T>(tensors, name) : std::vector<T>{};
  };
  const std::vector<T> x = widened<T>(tensors, "x"), dy = widened<T>(tensors, "cotangents/y");
  const std::vector<T> weight = widened<T>(tensors, "weight"), bias = optional(s.bias, "bias");
  const std::vector<T> h0 = optional(s.h0, "initial_state");
  const std::vector<T> dht = optional(s.dht, "cotangents/final_state");
  const std::size_t states = static_cast<std::size_t>(elements(s.state));
  std::vector<T> y(x.size()), ht(states), dx(x.size()), dweight(weight.size()), dbias(D),
      dh0(states);
  for (std::size_t seq = 0; seq + 1 < starts.size(); ++seq) {
    const auto first = static_cast<std::size_t>(starts[seq]);
    const std::size_t n = static_cast<std::size_t>(starts[seq + 1]) - first;
    for (std::size_t d = 0; d < D; ++d) {
      Line<T> line{
          .x = std::vector<T>(W + n), .dx = std::vector<T>(W + n), .dweight = std::vector<T>(W)};
      const std::size_t slot = (seq * D + d) * W;
      const bool leak = fault == "F-15" && seq > 0 && !s.h0;  // history of the sequence before
      for (std::size_t w = 0; w < W; ++w) {
        if (s.h0) line.x[w] = h0[slot + w];
        if (leak && first + w >= W) line.x[w] = x[(first + w - W) * D + d];
      }
      for (std::size_t t = 0; t < n; ++t) line.x[W + t] = x[(first + t) * D + d];
      line.weight.assign(weight.begin() + static_cast<std::ptrdiff_t>(d * W),
                         weight.begin() + static_cast<std::ptrdiff_t>((d + 1) * W));
      if (fault == "P-taps") std::reverse(line.weight.begin(), line.weight.end());
      if (s.bias) line.bias = bias[d];
      std::vector<T> y_n(n), dy_n(n);
      for (std::size_t t = 0; t < n; ++t) dy_n[t] = dy[(first + t) * D + d];
      convolve(line, std::span(y_n), std::span<const T>(dy_n), silu(c), vary, fault);
      for (std::size_t w = 0; w < W; ++w) {
        ht[slot + w] = line.x[n + w];
        const bool through = fault != "P-state-pass" || n + w >= W;
        if (s.dht && through) line.dx[line_of_slot(w, n, W, fault)] += dht[slot + w];
      }
      for (std::size_t t = 0; t < n; ++t) {
        y[(first + t) * D + d] = y_n[t];
        dx[(first + t) * D + d] = line.dx[W + t];
      }
      for (std::size_t w = 0; w < W; ++w) {
        dweight[d * W + w] += line.dweight[w];
        dh0[slot + w] = line.dx[w];
      }
      dbias[d] += line.dbias;
    }
  }
  return {{"y", std::move(y)},
          {"final_state", std::move(ht)},
          {"grads/x", std::move(dx)},
          {"grads/weight", std::move(dweight)},
          {"grads/bias", std::move(dbias)},
          {"grads/initial_state", std::move(dh0)}};
}

// The same walk on sizes: |weight|, |x|, |dy| and the roundoffs that they carry.
Results<double> companions(const Case& c, const Tensors& tensors) {
  const Shapes s = shapes(c);
  const auto D = static_cast<std::size_t>(s.d.extent);
  const auto W = static_cast<std::size_t>(s.w.extent);
  const std::vector<std::int64_t> starts = sequence_starts(c);
  const std::vector<double> x = widened<double>(tensors, "x"),
                            dy = widened<double>(tensors, "cotangents/y");
  const std::vector<double> weight = widened<double>(tensors, "weight");
  const std::vector<double> bias =
      s.bias ? widened<double>(tensors, "bias") : std::vector<double>(D);
  const std::size_t states = static_cast<std::size_t>(elements(s.state));
  const std::vector<double> h0 =
      s.h0 ? widened<double>(tensors, "initial_state") : std::vector<double>(states);
  const std::vector<double> dht =
      s.dht ? widened<double>(tensors, "cotangents/final_state") : std::vector<double>(states);
  const double units = static_cast<double>(W) + 1;
  const double tokens = sum_units(static_cast<double>(starts.back()));
  std::vector<double> m_y(x.size()), m_ht(states), m_dx(x.size()), m_dweight(weight.size()),
      m_dbias(D), m_dh0(states);
  for (std::size_t seq = 0; seq + 1 < starts.size(); ++seq) {
    const auto first = static_cast<std::size_t>(starts[seq]);
    const std::size_t n = static_cast<std::size_t>(starts[seq + 1]) - first;
    for (std::size_t d = 0; d < D; ++d) {
      const std::size_t slot = (seq * D + d) * W;
      const auto line = [&](std::size_t j) {
        return j < W ? h0[slot + j] : x[(first + j - W) * D + d];
      };
      std::vector<double> m_line(W + n, 0);
      for (std::size_t t = 0; t < n; ++t) {
        double z = bias[d], size = std::abs(bias[d]);
        for (std::size_t w = 0; w < W; ++w) {
          z += weight[d * W + w] * line(t + 1 + w);
          size += std::abs(weight[d * W + w] * line(t + 1 + w));
        }
        const double sig = silu(c) ? sigmoid_size(z) : 1;
        const double g = silu(c) ? sig * (1 + z * sigmoid(-z)) : 1;
        const std::size_t i = (first + t) * D + d;
        m_y[i] = silu(c) ? 1.1 * units * size + 5 * std::abs(z) * sig : units * size;
        const double dz_error =
            silu(c) ? std::abs(dy[i]) * (0.5 * units * size + 6 * std::abs(g) +
                                         sig * (std::abs(z) * complement_units(c, sigmoid(-z)) + 6))
                    : 0;
        const double dz = std::abs(dy[i] * g);
        for (std::size_t w = 0; w < W; ++w) {
          m_line[t + 1 + w] += std::abs(weight[d * W + w]) * (dz_error + (units + 1) * dz);
          m_dweight[d * W + w] += std::abs(line(t + 1 + w)) * (dz_error + (tokens + 1) * dz);
        }
        m_dbias[d] += dz_error + tokens * dz;
      }
      for (std::size_t w = 0; w < W; ++w) {
        m_ht[slot + w] = std::abs(line(n + w));
        m_line[n + w] += (units + 1) * std::abs(dht[slot + w]);
      }
      for (std::size_t t = 0; t < n; ++t) m_dx[(first + t) * D + d] = m_line[W + t];
      for (std::size_t w = 0; w < W; ++w) m_dh0[slot + w] = m_line[w];
    }
  }
  return {{"y", std::move(m_y)},
          {"final_state", std::move(m_ht)},
          {"grads/x", std::move(m_dx)},
          {"grads/weight", std::move(m_dweight)},
          {"grads/bias", std::move(m_dbias)},
          {"grads/initial_state", std::move(m_dh0)}};
}

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(outputs(c), evaluate<double>(c, tensors, {}, ""), companions(c, tensors),
                     gradients);
}

Evaluation base(const BaseRequest& r) {
  return evaluation_of(outputs(r.problem), evaluate<float>(r.problem, r.inputs, Vary(r), r.fault),
                       r.gradients);
}

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "short_conv";
  c.dtype = stored.read("inputs/x").spec.dtype;
  const std::vector<std::int64_t> extents = shape(stored, "inputs/x", 3);
  c.sizes = Sizes{{"B", extents[0], {}},
                  {"T", extents[1], {}},
                  {"D", extents[2], {}},
                  {"W", shape(stored, "inputs/weight", 2)[1], {}}};
  if (has(stored, "inputs/bias")) c.options.set("bias", "1");
  if (has(stored, "inputs/initial_state")) c.options.set("h0", "1");
  if (has(stored, "outputs/final_state")) c.options.set("state", "1");
  if (has(stored, "cotangents/final_state")) c.options.set("dht", "1");
  if (const std::string act = attribute(stored, "activation", "silu"); act != "silu")
    c.options.set("act", act);
  import_tensors(stored, registry().op_or_throw("short_conv"), imported);
  return imported;
}

const Register op{OpDef{
    .name = "short_conv",
    .what = "y_t = silu(sum_w weight_w x_(t-W+1+w) + bias), by channel",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"transformers models.kimi_linear causal_conv1d_fn",
                "flash-linear-attention fla/modules/convolution.py"},
    .inputs = inputs,
    .outputs = outputs,
    .derive = derive_cu_seqlens,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .import = import_case,
    .faults = {{"A-CV02", "F-30",
                "slot of the final state's gradient from a clamped start where T < W-1"},
               {"P-state-pass", "",
                "no gradient passes straight from the final to the initial state"},
               {"F-15", "", "history not reset at the start of a packed sequence"},
               {"P-taps", "", "taps in reverse order"},
               {"P-silu-slope", "", "silu' taken as sigmoid"},
               {"P-dbias-bf16", "", "bias gradient summed after a cast to bf16"},
               {.id = "A-CV01",
                .alias = "F-17",
                .what = "backward assumes a contiguous gradient",
                .unsupported = "launches hand over dense tensors only"}},
}};

}  // namespace
}  // namespace parity::unit
