// short_conv.rows: tokens in order, 64 channels at a time, one block of channels a thread: every
// sum over tokens is that of one thread, so the number of threads never shows. f32 sums over the
// taps, bias first. W <= 8, any T (also shorter than W) and D. The backward recomputes z.
#include <array>
#include <vector>

#include "kernels/unit/rows.hpp"

namespace parity::unit_kernel {
namespace {

constexpr std::int64_t kChannels = 64;
constexpr std::int64_t kMostTaps = 8;
using Block = std::array<float, static_cast<std::size_t>(kChannels)>;

struct Conv {
  std::int64_t D = 0, W = 0;
  std::vector<std::int64_t> starts = {};
  bool silu = true;
  std::string_view fault = {};
};

Conv conv_of(const Launch& launch) {
  const Case& c = launch.problem;
  Conv conv{.D = c.sizes["D"],
            .W = c.sizes.get("W", 4),
            .silu = c.options.get("act", "silu") == "silu",
            .fault = launch.fault};
  const Size& T = *c.sizes.find("T");
  conv.starts = {0};
  if (T.parts.empty())
    for (std::int64_t b = 0; b < c.sizes.get("B", 1); ++b)
      conv.starts.push_back(conv.starts.back() + T.extent);
  for (const std::int64_t part : T.parts) conv.starts.push_back(conv.starts.back() + part);
  return conv;
}

// Inputs of one sequence for channels [d0, d0 + n): position j of a line is slot j of the initial
// state for j < W, token j - W from there.
template <class T>
struct Lines {
  const Conv& conv;
  const T* x = nullptr;
  const T* h0 = nullptr;
  std::int64_t first = 0;  // row of token 0
  std::int64_t seq = 0;
  std::int64_t d0 = 0, n = 0;

  float at(std::int64_t j, std::int64_t k) const {
    const std::int64_t row = first + j - conv.W;
    if (j >= conv.W) return widen(x[row * conv.D + d0 + k]);
    if (h0 != nullptr) return widen(h0[(seq * conv.D + d0 + k) * conv.W + j]);
    return conv.fault == "F-15" && row >= 0 ? widen(x[row * conv.D + d0 + k]) : 0.0F;
  }
  void row(std::int64_t j, Block& to) const {
    for (std::int64_t k = 0; k < n; ++k) to[static_cast<std::size_t>(k)] = at(j, k);
  }
};

struct Taps {
  std::array<Block, kMostTaps> w = {};
  Block bias = {};
};

Taps taps_of(const Launch& launch, const Conv& conv, std::int64_t d0, std::int64_t n) {
  Taps taps;
  const float* weight_DW = launch.in<float>("weight");
  const float* bias_D = launch.in<float>("bias");
  for (std::int64_t k = 0; k < n; ++k) {
    const auto at = static_cast<std::size_t>(k);
    for (std::int64_t w = 0; w < conv.W; ++w)
      taps.w[static_cast<std::size_t>(w)][at] = weight_DW[(d0 + k) * conv.W + w];
    if (bias_D != nullptr) taps.bias[at] = bias_D[d0 + k];
  }
  return taps;
}

// z of token t from a window of its W inputs.
void weigh(const Conv& conv, const Taps& taps, const std::array<Block, kMostTaps>& window,
           std::int64_t t, Block& z) {
  z = taps.bias;
  for (std::int64_t w = 0; w < conv.W; ++w) {
    const Block& x = window[static_cast<std::size_t>((t + 1 + w) % conv.W)];
    const Block& weight = taps.w[static_cast<std::size_t>(w)];
    for (std::size_t k = 0; k < z.size(); ++k) z[k] += weight[k] * x[k];
  }
}

template <class Work>
void for_blocks(const Launch& launch, const Conv& conv, const Work& work) {
  for_slots(launch.threads, (conv.D + kChannels - 1) / kChannels, [&](std::int64_t block) {
    const std::int64_t d0 = block * kChannels;
    work(d0, std::min(kChannels, conv.D - d0));
  });
}

template <class T>
void forward_tokens(const Launch& launch, const Conv& conv) {
  const T* x = launch.in<T>("x");
  const T* h0 = launch.in<T>("initial_state");
  T* y = launch.out<T>("y");
  T* state = launch.out<T>("final_state");
  for_blocks(launch, conv, [&](std::int64_t d0, std::int64_t n) {
    const Taps taps = taps_of(launch, conv, d0, n);
    std::array<Block, kMostTaps> window = {};
    Block z;
    for (std::int64_t seq = 0; seq + 1 < static_cast<std::int64_t>(conv.starts.size()); ++seq) {
      const std::int64_t first = conv.starts[static_cast<std::size_t>(seq)];
      const std::int64_t tokens = conv.starts[static_cast<std::size_t>(seq) + 1] - first;
      const Lines<T> lines{conv, x, h0, first, seq, d0, n};
      for (std::int64_t j = 0; j < conv.W; ++j) lines.row(j, window[static_cast<std::size_t>(j)]);
      for (std::int64_t t = 0; t < tokens; ++t) {
        lines.row(conv.W + t, window[static_cast<std::size_t>(t % conv.W)]);
        weigh(conv, taps, window, t, z);
        for (std::int64_t k = 0; k < n; ++k) {
          const float v = z[static_cast<std::size_t>(k)];
          narrow(conv.silu ? v * sigmoid(v) : v, y[(first + t) * conv.D + d0 + k]);
        }
      }
      if (state != nullptr)
        for (std::int64_t k = 0; k < n; ++k)
          for (std::int64_t w = 0; w < conv.W; ++w)
            narrow(lines.at(tokens + w, k), state[(seq * conv.D + d0 + k) * conv.W + w]);
      if (conv.fault == "A-CV03" && h0 != nullptr && tokens > 0)  // the cache is updated in place
        for (std::int64_t k = 0; k < n; ++k)
          narrow(lines.at(tokens, k), const_cast<T*>(h0)[(seq * conv.D + d0 + k) * conv.W]);
    }
  });
}

// Line position that the gradient of state slot w goes to.
std::int64_t position_of_slot(const Conv& conv, std::int64_t w, std::int64_t tokens) {
  const std::int64_t right = tokens + w;
  if (conv.fault != "A-CV02" || tokens >= conv.W - 1 || right < conv.W) return right;
  return std::min(right + 1, tokens + conv.W - 1);  // index from a clamped start
}

template <class T>
void backward_tokens(const Launch& launch, const Conv& conv) {
  const T* x = launch.in<T>("x");
  const T* h0 = launch.in<T>("initial_state");
  const T* dy = launch.in<T>("cotangents/y");
  const T* dstate = launch.in<T>("cotangents/final_state");
  T* dx = launch.out<T>("grads/x");
  T* dh0 = launch.out<T>("grads/initial_state");
  float* dweight_DW = launch.out<float>("grads/weight");
  float* dbias_D = launch.out<float>("grads/bias");
  for_blocks(launch, conv, [&](std::int64_t d0, std::int64_t n) {
    const Taps taps = taps_of(launch, conv, d0, n);
    Taps sums;
    std::array<Block, kMostTaps> window = {};
    std::vector<Block> dline;
    Block z;
    for (std::int64_t seq = 0; seq + 1 < static_cast<std::int64_t>(conv.starts.size()); ++seq) {
      const std::int64_t first = conv.starts[static_cast<std::size_t>(seq)];
      const std::int64_t tokens = conv.starts[static_cast<std::size_t>(seq) + 1] - first;
      const Lines<T> lines{conv, x, h0, first, seq, d0, n};
      dline.assign(static_cast<std::size_t>(conv.W + tokens), Block{});
      if (dstate != nullptr)
        for (std::int64_t w = 0; w < conv.W; ++w)
          for (std::int64_t k = 0; k < n; ++k)
            dline[static_cast<std::size_t>(position_of_slot(conv, w, tokens))]
                 [static_cast<std::size_t>(k)] +=
                widen(dstate[(seq * conv.D + d0 + k) * conv.W + w]);
      for (std::int64_t j = 0; j < conv.W; ++j) lines.row(j, window[static_cast<std::size_t>(j)]);
      for (std::int64_t t = 0; t < tokens; ++t) {
        lines.row(conv.W + t, window[static_cast<std::size_t>(t % conv.W)]);
        weigh(conv, taps, window, t, z);
        for (std::int64_t k = 0; k < n; ++k) {
          float& v = z[static_cast<std::size_t>(k)];  // becomes dz
          const float s = sigmoid(v);
          const float slope = conv.silu ? s * (1 + v * (1 - s)) : 1;
          v = widen(dy[(first + t) * conv.D + d0 + k]) * slope;
        }
        for (std::int64_t w = 0; w < conv.W; ++w) {
          const auto tap = static_cast<std::size_t>(w);
          Block& d = dline[static_cast<std::size_t>(t + 1 + w)];
          const Block& past = window[static_cast<std::size_t>((t + 1 + w) % conv.W)];
          for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k) {
            d[k] += taps.w[tap][k] * z[k];
            sums.w[tap][k] += z[k] * past[k];
          }
        }
        for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k) sums.bias[k] += z[k];
      }
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t k = 0; k < n; ++k)
          narrow(dline[static_cast<std::size_t>(conv.W + t)][static_cast<std::size_t>(k)],
                 dx[(first + t) * conv.D + d0 + k]);
      if (dh0 != nullptr)
        for (std::int64_t w = 0; w < conv.W; ++w)
          for (std::int64_t k = 0; k < n; ++k)
            narrow(dline[static_cast<std::size_t>(w)][static_cast<std::size_t>(k)],
                   dh0[(seq * conv.D + d0 + k) * conv.W + w]);
    }
    for (std::int64_t k = 0; k < n; ++k) {
      for (std::int64_t w = 0; w < conv.W; ++w)
        dweight_DW[(d0 + k) * conv.W + w] =
            sums.w[static_cast<std::size_t>(w)][static_cast<std::size_t>(k)];
      if (dbias_D != nullptr) dbias_D[d0 + k] = sums.bias[static_cast<std::size_t>(k)];
    }
  });
}

void forward(const Launch& launch) {
  with_storage(launch.problem.dtype,
               [&]<class T>(T) { forward_tokens<T>(launch, conv_of(launch)); });
}

void backward(const Launch& launch) {
  with_storage(launch.problem.dtype,
               [&]<class T>(T) { backward_tokens<T>(launch, conv_of(launch)); });
}

std::string refuses(const Case& c, const Options&) {
  return c.sizes.get("W", 4) > kMostTaps ? "at most 8 taps" : "";
}

const Register kernel{KernelDef{
    .op = "short_conv",
    .name = "short_conv.rows",
    .what = "f32, 64 channels at a time, W <= 8, packed sequences, states of W inputs",
    .contract = kF32Contract,
    .refuses = refuses,
    .forward = forward,
    .backward = backward,
    .faults = {{"A-CV02", "F-30",
                "slot of the final state's gradient from a clamped start where T < W-1"},
               {"A-CV03", "",
                "the cache is updated in place, so a second run starts from another state"},
               {"F-15", "", "history not reset at the start of a packed sequence"}},
}};

}  // namespace
}  // namespace parity::unit_kernel
