#include "references/integer/affine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/failure.hpp"

namespace parity::integer {
namespace {

using quantize::max_nan;
using quantize::min_nan;

float clamped(float value, const Affine& a) {  // NaN stays
  return max_nan(min_nan(value, static_cast<float>(a.qmax)), static_cast<float>(a.qmin));
}

// What is left of an integer that a narrow register holds without a clamp.
float wrapped(float value, const Affine& a) {
  const auto span = static_cast<float>(a.qmax - a.qmin + 1);
  const auto low = static_cast<float>(a.qmin);
  return value - span * std::floor((value - low) / span);
}

struct Code {
  float integer = 0;  // before the clamp
  float code = 0;
};

Code code_of(const Affine& a, const Group& g, float inverse, float x) {
  Code c;
  if (a.mapping == Mapping::Tinygemm) {
    const float low = rounded(a.data, g.zero - rounded(a.data, g.scale * a.mid()));
    c.integer = nearest_integer(rounded(a.data, rounded(a.data, x - low) / g.scale), a.defect);
  } else {
    const float y = rounded(a.wide(), a.defect == Defect::Divided ? x / g.scale : x * inverse);
    c.integer = rounded(a.wide(), nearest_integer(y, a.defect) + g.zero);
  }
  c.code = a.defect == Defect::Wrapped && std::isfinite(c.integer) ? wrapped(c.integer, a)
                                                                   : clamped(c.integer, a);
  return c;
}

float value_of(const Affine& a, const Group& g, float code) {
  const auto R = [&](float v) { return a.defect == Defect::DequantWide ? v : rounded(a.data, v); };
  const auto wide = [&](float v) {
    return a.defect == Defect::DequantWide ? v : rounded(a.wide(), v);
  };
  if (a.mapping == Mapping::Tinygemm) {
    if (a.defect == Defect::DequantExpanded)
      return rounded(a.data, R(code * g.scale) + R(g.zero - R(a.mid() * g.scale)));
    return rounded(a.data, R(R(code - a.mid()) * g.scale) + g.zero);
  }
  if (a.defect == Defect::DequantExpanded)
    return rounded(a.data, wide(wide(code * g.scale) - wide(g.zero * g.scale)));
  return rounded(a.data, wide(rounded(a.data, code - g.zero) * g.scale));
}

}  // namespace

float rounded(Dtype dtype, float value) {
  if (dtype == Dtype::F32) return value;
  return static_cast<float>(round_to(dtype, static_cast<double>(value)));
}

float nearest_integer(float value, Defect defect) {
  if (defect == Defect::HalfAway) return std::round(value);
  if (defect == Defect::Truncated) return std::trunc(value);
  return std::nearbyint(value);
}

Mapping parse_mapping(const std::string& text) {
  if (text == "SYMMETRIC" || text == "symmetric") return Mapping::Symmetric;
  if (text == "SYMMETRIC_NO_CLIPPING_ERR" || text == "no_clipping") return Mapping::NoClipping;
  if (text == "ASYMMETRIC" || text == "asymmetric") return Mapping::Asymmetric;
  throw UsageError("no mapping '" + text + "' (symmetric, no_clipping, asymmetric)");
}

Dtype Affine::wide() const { return data == Dtype::F32 || scale == Dtype::F32 ? Dtype::F32 : data; }

Group choose(const Affine& a, float min, float max) {
  const auto R = [&](float v) { return a.defect == Defect::WideScale ? v : rounded(a.data, v); };
  const bool tinygemm = a.mapping == Mapping::Tinygemm;
  if (tinygemm == (a.defect == Defect::ZeroExcluded)) {
    min = min_nan(min, 0.0F);
    max = max_nan(max, 0.0F);
  }
  const int off = a.defect == Defect::FullRange ? 1 : 0;
  const auto range = static_cast<float>(a.qmax - a.qmin + off);
  float scale = 0;
  switch (a.mapping) {
    case Mapping::Symmetric:
      scale = R(max_nan(-min, max) / (range / 2));
      break;
    case Mapping::NoClipping:
      scale = max_nan(R(min / static_cast<float>(a.qmin - off)),
                      R(max / static_cast<float>(a.qmax + off)));
      break;
    case Mapping::Asymmetric:
    case Mapping::Tinygemm:
      scale = R(R(max - min) / range);
      break;
  }
  if (a.defect != Defect::EpsMissing) scale = max_nan(scale, R(a.eps));
  Group g;
  if (tinygemm) {
    g.zero = R(min + R(scale * a.mid()));
  } else if (a.mapping == Mapping::Asymmetric) {
    g.zero = R(static_cast<float>(a.qmin) - nearest_integer(R(min / scale), a.defect));
    g.zero = clamped(g.zero, a);
  } else if (a.qmin == 0) {  // unsigned: the middle of the range stands for 0
    g.zero = std::floor(a.mid());
  }
  g.open = !tinygemm && std::isnan(g.zero);
  g.scale = rounded(a.scale, scale);
  return g;
}

std::string refuses(const Affine& a, std::int64_t rows, std::int64_t columns) {
  const std::int64_t width = a.block_columns == 0 ? columns : a.block_columns;
  if (a.block_rows > 0 && width > 0 && rows % a.block_rows == 0 && columns % width == 0) return "";
  return "blocks of " + std::to_string(a.block_rows) + " x " + std::to_string(width) +
         " do not tile a matrix of " + std::to_string(rows) + " x " + std::to_string(columns);
}

std::int64_t group_of(const Affine& a, std::int64_t columns, std::int64_t m, std::int64_t k) {
  const std::int64_t width = a.block_columns == 0 ? columns : a.block_columns;
  return m / a.block_rows * (columns / width) + k / width;
}

std::vector<Group> choose_all(const Affine& a, const Matrix& x) {
  const std::int64_t width = a.block_columns == 0 ? x.columns : a.block_columns;
  const auto count = static_cast<std::size_t>(x.rows / a.block_rows * (x.columns / width));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> low(count, kInfinity), high(count, -kInfinity);
  for (std::int64_t m = 0; m < x.rows; ++m) {
    for (std::int64_t k = 0; k < x.columns; ++k) {
      const auto g = static_cast<std::size_t>(group_of(a, x.columns, m, k));
      const float v = x.values[static_cast<std::size_t>(m * x.columns + k)];
      low[g] = min_nan(low[g], v);
      high[g] = max_nan(high[g], v);
    }
  }
  std::vector<Group> groups;
  for (std::size_t g = 0; g < count; ++g) {
    const std::size_t from = a.defect == Defect::NeighbourGroup && g > 0 ? g - 1 : g;
    groups.push_back(choose(a, low[from], high[from]));
  }
  return groups;
}

Integers quantise(const Affine& a, const Matrix& x, std::vector<Group> groups) {
  Integers q;
  q.groups = std::move(groups);
  std::vector<float> inverses;
  for (const Group& g : q.groups) inverses.push_back(rounded(a.scale, 1 / g.scale));
  for (std::int64_t m = 0; m < x.rows; ++m) {
    for (std::int64_t k = 0; k < x.columns; ++k) {
      const auto at = static_cast<std::size_t>(group_of(a, x.columns, m, k));
      const Group& g = q.groups[at];
      const Code c =
          code_of(a, g, inverses[at], x.values[static_cast<std::size_t>(m * x.columns + k)]);
      q.open.push_back(g.open || std::isnan(c.integer) ? 1 : 0);
      q.codes.push_back(std::isnan(c.code) ? 0 : c.code);
      q.values.push_back(value_of(a, g, q.codes.back()));
      const float tested = a.defect == Defect::MaskAfterClamp ? c.code : c.integer;
      const bool strict = a.defect == Defect::MaskExclusive;
      const bool inside =
          strict ? tested > static_cast<float>(a.qmin) && tested < static_cast<float>(a.qmax)
                 : tested >= static_cast<float>(a.qmin) && tested <= static_cast<float>(a.qmax);
      q.inside.push_back(inside || a.defect == Defect::MaskMissing ? 1 : 0);
    }
  }
  return q;
}

std::vector<float> straight_through(const Affine& a, const Matrix& x, const Integers& q,
                                    const std::vector<float>& cotangent) {
  std::vector<float> gradient;
  gradient.reserve(cotangent.size());
  for (std::int64_t m = 0; m < x.rows; ++m) {
    for (std::int64_t k = 0; k < x.columns; ++k) {
      const auto i = static_cast<std::size_t>(m * x.columns + k);
      const Group& g = q.groups[static_cast<std::size_t>(group_of(a, x.columns, m, k))];
      const float inverse = rounded(a.scale, 1 / g.scale);
      const float upstream = a.defect == Defect::GradientOfValue ? q.values[i] : cotangent[i];
      if (q.inside[i] == 0 || a.defect == Defect::GradientZero) {
        gradient.push_back(0);  // selected, not multiplied: +0
      } else if (a.defect == Defect::GradientPlain) {
        gradient.push_back(upstream);
      } else {
        const float scaled = rounded(a.data, rounded(a.wide(), upstream * g.scale));
        gradient.push_back(rounded(a.data, rounded(a.wide(), scaled * inverse)));
      }
    }
  }
  return gradient;
}

}  // namespace parity::integer
