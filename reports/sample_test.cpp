#include "reports/sample_test.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string_view>
#include <tuple>
#include <zlib.h>

#include "harness/numeric/philox.hpp"
#include "reports/page.hpp"

namespace parity::reports::test {

TensorRecord sample_tensor(std::string name, std::string role, std::string dtype, double used,
                           bool pictures, std::uint64_t seed) {
  constexpr std::int64_t kT = 256, kH = 4, kV = 64;
  const Rng rng{.seed = seed};
  TensorRecord t{.name = std::move(name), .role = std::move(role), .dtype = std::move(dtype)};
  t.shape = {1, kT, kH, kV};
  t.axes = {"b", "t", "h", "v"};
  t.elements = kT * kH * kV;
  t.max_abs = used * 3e-3;
  t.max_rel = used * 0.2;
  t.rel_l2 = used * 4e-3;
  t.cosine = 1 - used * 1e-6;
  t.max_ulp = std::ceil(used * 4);
  t.mean_ulp = used * 0.3;
  t.norm_ratio = 1 - used * 1e-5;
  t.truth_rms = 0.7;
  t.gain = -1e-4 * used;
  t.gain_base = -4e-5;
  t.gain_z = 1.3;
  t.offset_z = 0.4;
  t.grid_format = "bfloat16";
  t.grid_share = 1;
  t.bound_used = used;
  t.base_bound_used = 0.42;
  t.rel_l2_base = 3.1e-3;
  t.floor = 3.3e-3;
  t.bound_kind = "estimated";
  t.bound_why =
      "rho u |x*| + c sigma, sigma of 8 variants of the base pooled over token and head; c = 9 for "
      "a "
      "family-wise 1e-6";
  t.bound_that_would_pass = used;
  t.detectable = 2e-3;
  t.quantiles = {
      {"p50", used * 0.1}, {"p90", used * 0.4}, {"p99", used * 0.8}, {"p999", used * 0.95}};
  t.worst = WorstPoint{.index = {0, 197, 2, 17},
                       .letters = "b=0,t=197,h=2,v=17",
                       .truth = 0.73212,
                       .base = 0.734375,
                       .candidate = 0.73212 + t.max_abs,
                       .ulp = t.max_ulp,
                       .bound_used = used};
  const bool ok = used <= 1;
  t.views = {
      {"finiteness", 0, 0, true, ""},
      {"bound", used, 1, ok, ok ? "" : "at b=0,t=197,h=2,v=17"},
      {"slice", used * 0.9, 1.15, used * 0.9 <= 1.15, "token 197"},
      {"bias", used * 1e-4, 1e-3, used * 1e-4 <= 1e-3, "gain"},
      {"floor", used * 4e-3, 9.9e-3, used * 4e-3 <= 9.9e-3, "rel L2 against 3 noise floors"}};
  t.status = ok ? "pass" : "fail";
  t.view = ok ? "" : "bound";
  if (!ok) {
    t.mismatches = 512;
    t.pattern = "every error lies in the last partial chunk, t >= 192";
    for (int i = 0; i < 10; ++i)
      t.worst_points.push_back({.index = {0, 197 + i, 2, 17},
                                .letters = fmt::format("b=0,t={},h=2,v=17", 197 + i),
                                .truth = 0.7 - 0.01 * i,
                                .base = 0.7 - 0.01 * i + 1e-3,
                                .candidate = 0.7 + 0.03 * i,
                                .ulp = 9.0 + i,
                                .bound_used = used * (1 - 0.05 * i)});
  }
  if (!pictures) return t;
  Heatmap map{.rows = "t", .cols = "h", .height = 64, .width = kH};
  AxisProfile by_token{.axis = "t"}, by_head{.axis = "h"};
  for (std::int64_t i = 0; i < map.height; ++i) {
    double most = 0;
    for (std::int64_t h = 0; h < kH; ++h) {
      const double cell =
          used *
          (!ok && i >= 48
               ? 0.4 + 0.6 * rng.uniform01(static_cast<std::uint64_t>(i * kH + h))
               : std::pow(10, -2.2 + 1.6 * rng.uniform01(static_cast<std::uint64_t>(i * kH + h))));
      map.cells.push_back(cell);
      most = std::max(most, cell);
    }
    by_token.bound_used.push_back(most);
    by_token.rms.push_back(most);
  }
  for (std::int64_t h = 0; h < kH; ++h)
    by_head.bound_used.push_back(used * (0.5 + 0.1 * static_cast<double>(h)));
  by_token.chi_square = ok ? 40 : 4100;
  by_token.chi_limit = 110;
  t.heatmaps = {map};
  t.profiles = {by_token, by_head};
  for (int bin = -20; bin <= 20; ++bin) {
    const double gauss = 30000 * std::exp(-0.5 * std::pow((std::abs(bin) - 1) / 1.6, 2));
    t.ulp_histogram.push_back(
        static_cast<std::int64_t>(gauss * (bin == 0 ? 0.5 : 1) * (bin > 3 && !ok ? 6 : 1)));
    t.ulp_histogram_base.push_back(static_cast<std::int64_t>(gauss * 0.9));
  }
  Scatter scatter;
  for (int m = -12; m <= 2; ++m)
    for (int e = -20; e <= -6; ++e) {
      const double mass =
          9000 * std::exp(-0.5 * (std::pow((m + 2) / 2.5, 2) + std::pow((e - m + 10) / 1.4, 2)));
      if (mass < 1) continue;
      scatter.log2_magnitude.push_back(m);
      scatter.log2_error.push_back(e + (ok ? 0 : 2));
      scatter.log2_allowed.push_back(std::max(-9.0, m - 7.0));
      scatter.count.push_back(std::round(mass));
    }
  t.scatter = scatter;
  return t;
}

CaseRecord sample_case(std::string op, std::string kernel, std::string dtype, std::string sizes,
                       std::string fill, double used, bool pictures, std::uint64_t seed) {
  CaseRecord c{.op = std::move(op),
               .kernel = std::move(kernel),
               .dtype = std::move(dtype),
               .fill = std::move(fill)};
  c.sizes_text = sizes;
  c.sizes = {{"B", 1}, {"T", 256}, {"H", 4}, {"K", 64}, {"V", 64}};
  c.options = {{"gate", "lower_bound"}};
  c.seed = seed;
  c.id = fmt::format("{}/{}/{}/{}/gate=lower_bound/s{}@{}", c.op, sizes, c.dtype, c.fill, seed,
                     c.kernel);
  c.direction = "both";
  c.check = "parity";
  c.lane = "smoke";
  c.contract =
      "f32: accumulates in f32, chunk 64; base is faithful; deterministic; bit-equal whatever the "
      "threads";
  for (const std::string_view name : {"o", "final_state"})
    c.tensors.push_back(sample_tensor(std::string(name), name == "o" ? "output" : "state", c.dtype,
                                      used * 0.8, pictures, seed + 1));
  for (const std::string_view name : {"grads/q", "grads/k", "grads/v", "grads/g", "grads/beta"})
    c.tensors.push_back(sample_tensor(std::string(name), "gradient", c.dtype,
                                      name == "grads/v" ? used : used * 0.5, pictures, seed + 2));
  c.status = used <= 1 ? "pass" : "fail";
  if (used > 1) {
    c.view = "bound";
    c.views = {"bound", "slice"};
    c.reason = "grads/v: bound";
  }
  c.accounting = {.produced = 1 << 20, .compared = 1 << 20};
  c.time_ms = {.generate = 0.4, .reference = 12.5, .base = 80, .kernel = 1.2, .compare = 3};
  c.repro = fmt::format("parity run '{}'", c.id);
  return c;
}

// `passing` sound cases over three kernels; with `failing` also one of every other outcome, and a
// kill table.
RunFolder sample_run(int passing, bool failing) {
  RunFolder folder;
  folder.run = {.started = "2026-01-31T12:34:56Z",
                .command = "parity gate --lane full --out results",
                .commit = "a1b2c3d4e5f6",
                .lane = "full"};
  folder.run.host = {
      {"cpu", "AMD EPYC 9554"}, {"isa", "avx2 avx512f"}, {"cores", "2"}, {"os", "Debian 12"}};
  folder.run.compiler = {{"id", "GNU"}, {"version", "12.2.0"}};
  folder.run.flags = {{"all", "-O2 -ffp-contract=off"}, {"*_avx2.cpp", "-mavx2 -mfma"}};
  folder.run.libraries = {{"hdf5", "1.10.8"}, {"libtorch", "2.11.0"}};
  folder.wall_ms = 43210;
  const Rng rng{.seed = 7};
  constexpr std::array<std::string_view, 3> kKernels = {
      "kda.chunked_f32", "kda.chunked_bf16[chunk=32]", "kda.recurrent_f32"};
  constexpr std::array<std::string_view, 6> kSizes = {
      "B1,T1,H1,K16,V16",   "B1,T63,H2,K64,V64",          "B1,T64,H2,HV4,K64,V64",
      "B1,T65,H2,K64,V128", "T3+0+1021,H4,HV4,K128,V128", "B2,T256,H4,K64,V64"};
  constexpr std::array<std::string_view, 5> kFills = {"uniform", "gate_floor", "strong_decay",
                                                      "repeated_keys", "beta_edges"};
  Pictures pictures;
  for (int i = 0; i < passing; ++i) {
    const auto u = static_cast<std::size_t>(i);
    const std::string kernel(kKernels[u % 3]);
    CaseRecord record = sample_case("kda", kernel, u % 3 == 1 ? "bf16" : "f32",
                                    std::string(kSizes[u / 3 % 6]), std::string(kFills[u / 18 % 5]),
                                    std::pow(10, -2.5 + 2.45 * rng.uniform01(u)), true, u / 90);
    pictures.thin(record);
    folder.cases.push_back(std::move(record));
  }
  folder.exit = 0;
  if (!failing) return folder;
  folder.cases.push_back(sample_case("kda", "kda.chunked_bf16[chunk=32]", "bf16",
                                     "B2,T256,H4,K64,V64", "gate_floor", 3.41, true, 90));
  folder.cases.push_back(sample_case("kda", "kda.chunked_f32", "f32", "B2,T256,H4,K64,V64",
                                     "uniform", std::nan(""), true, 91));
  folder.cases.back().status = "fail";
  folder.cases.back().view = "finiteness";
  CaseRecord odd =
      sample_case("kda", "kda.chunked_f32", "f32", "B1,T64,H2,HV4,K64,V64", "peak", 0.2, false, 92);
  odd.tensors.clear();
  for (const auto& [status, kind, reason] :
       {std::tuple("error", "crash", "killed by SIGSEGV in the backward"),
        std::tuple("error", "timeout", "still running after 60 s"),
        std::tuple("unproven", "",
                   "zeros would pass: the bound of grads/g is larger than the output"),
        std::tuple("unsupported", "", "needs sm_90: no CUDA device"),
        std::tuple("waived", "", "known: kernel drops the last partial chunk")}) {
    odd.status = status;
    odd.error_kind = kind;
    odd.reason = reason;
    odd.fill += "x";
    odd.id = fmt::format("kda/B1,T64,H2,HV4,K64,V64/f32/{}/s92@kda.chunked_f32", odd.fill);
    folder.cases.push_back(odd);
  }
  CaseRecord damaged =
      sample_case("kda", "recording.truncated_o", "bf16", "", "recorded", 2.2, true, 93);
  damaged.id = "kda/kda_h200_damaged:normal/recorded@recording.truncated_o";
  damaged.expected = "fail";
  folder.cases.push_back(damaged);
  folder.mutants = {{.id = "kda.chunked_f32!F-12",
                     .op = "kda",
                     .fault = "F-12",
                     .alias = "A-KDA03",
                     .what = "the last partial chunk is dropped",
                     .status = "killed",
                     .case_id = "kda/B1,T63,H2,K64,V64/f32/uniform/s0",
                     .view = "bound",
                     .margin = 812.4},
                    {.id = "kda.base!F-31",
                     .op = "kda",
                     .fault = "F-31",
                     .what = "decay is taken one row early",
                     .status = "survived",
                     .reason = "widest: 0.82 of its bound at kda/B1,T1,H1,K16,V16/f32/uniform/s0"},
                    {.id = "kda.chunked_f32!F-40",
                     .op = "kda",
                     .fault = "F-40",
                     .what = "a race between two warps",
                     .status = "unsupported",
                     .reason = "a CPU cannot show a race between warps"}};
  folder.mutation = MutationSummary{
      .killed = 1, .survived = 1, .unsupported = 1, .false_alarms = 0, .clean = 1040};
  folder.exit = 1;
  return folder;
}

std::string markup_error(std::string_view text) {
  constexpr std::array<std::string_view, 4> kVoid = {"meta", "input", "br", "!doctype"};
  std::vector<std::string> open;
  const auto context = [&](std::size_t at) {
    return fmt::format(" at {}: {}", at, text.substr(at > 40 ? at - 40 : 0, 100));
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&') {
      const std::size_t end = text.find(';', at);
      if (end == std::string_view::npos || end - at > 8) return "a bare '&'" + context(at);
    }
    if (text[at] != '<') continue;
    // The end of the tag, not inside an attribute's quotes.
    char quote = 0;
    std::size_t end = at + 1;
    for (; end < text.size() && (quote || text[end] != '>'); ++end) {
      if (quote ? text[end] == quote : text[end] == '"') quote = quote ? '\0' : '"';
      if (!quote && text[end] == '<') return "a bare '<'" + context(at);
    }
    if (end == text.size()) return "a tag without end" + context(at);
    const std::string_view tag = text.substr(at + 1, end - at - 1);
    const bool closing = tag.starts_with('/');
    const std::string name(tag.substr(closing, tag.find_first_of(" /", 1) - closing));
    if (name.empty() || name == "/" || tag.starts_with('?') || std::ranges::count(kVoid, name) ||
        tag.ends_with('/')) {
      at = end;
      continue;
    }
    if (!closing) {
      open.push_back(name);
      if (name == "style" || name == "script") end = text.find("</" + name, end) - 1;
    } else if (open.empty() || open.back() != name) {
      return fmt::format("</{}> closes <{}>", name, open.empty() ? "nothing" : open.back()) +
             context(at);
    } else {
      open.pop_back();
    }
    at = end;
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

std::string unpacked(std::string_view page) {
  constexpr std::string_view kOpen = "id=\"packed\">";
  std::string text(page);
  const std::size_t begin = text.find(kOpen) + kOpen.size(), end = text.find('<', begin);
  std::string bytes;  // base64
  unsigned bits = 0;
  int held = 0;
  for (const char c : text.substr(begin, end - begin)) {
    const std::size_t digit =
        std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
            .find(c);
    if (digit == std::string_view::npos) break;
    bits = (bits << 6U | static_cast<unsigned>(digit)) & 0xFFFFU;
    if ((held += 6) >= 8) bytes += static_cast<char>(bits >> (held -= 8) & 0xFFU);
  }
  text.erase(begin, end - begin);
  if (bytes.empty()) return text;
  std::string whole(64u << 20, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(whole.data());
  stream.avail_out = static_cast<uInt>(whole.size());
  EXPECT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  whole.resize(stream.total_out);
  inflateEnd(&stream);
  std::size_t at = 0;
  for (int part = 0; at <= whole.size(); ++part) {
    const std::size_t stop = std::min(whole.find(page::kPartEnd, at), whole.size());
    const std::string box = "data-part=\"" + std::to_string(part) + "\">";
    const std::size_t place = text.find(box);
    EXPECT_NE(place, std::string::npos) << part;
    if (place == std::string::npos) break;
    text.insert(place + box.size(), whole, at, stop - at);
    at = stop + 1;
  }
  return text;
}

std::size_t occurrences(std::string_view text, std::string_view word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    ++n;
  return n;
}

}  // namespace parity::reports::test
