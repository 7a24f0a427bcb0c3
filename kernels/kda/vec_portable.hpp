// Sixteen f32 lanes in plain C++; what vec_avx2.hpp and vec_avx512.hpp are measured against.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace parity::kda_kernel::portable {

struct Vec {
  static constexpr unsigned kRows = 4,
                            kCols = 1;    // register tile of a product, in rows and vectors
  static constexpr unsigned kStrips = 1;  // vectors of channels that a leaf keeps in registers
  float x[16];

  template <class F>
  static Vec map(F f) {
    Vec r;
    for (int i = 0; i < 16; ++i) r.x[i] = f(i);
    return r;
  }
  static Vec broadcast(float v) {
    return map([&](int) { return v; });
  }
  static Vec load(const float* p) {
    Vec r;
    std::memcpy(r.x, p, sizeof r.x);
    return r;
  }
  void store(float* p) const { std::memcpy(p, x, sizeof x); }
  void stream(float* p) const {  // p on a cache line; visible to others after fence()
    store(p);
  }
  static void fence() {}
  static Vec load_bf16(const std::uint16_t* p) {
    return map([&](int i) {
      const std::uint32_t bits = std::uint32_t{p[i]} << 16;
      float v;
      std::memcpy(&v, &bits, sizeof v);
      return v;
    });
  }
  void store_bf16(std::uint16_t* p) const {
    for (int i = 0; i < 16; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, &x[i], sizeof bits);
      if ((bits & 0x7fffffffu) > 0x7f800000u)
        bits |= 0x00400000u;  // NaN stays NaN, quiet
      else
        bits += 0x7fffu + (bits >> 16 & 1u);
      p[i] = static_cast<std::uint16_t>(bits >> 16);
    }
  }

  friend Vec operator+(Vec a, Vec b) {
    return map([&](int i) { return a.x[i] + b.x[i]; });
  }
  friend Vec operator-(Vec a, Vec b) {
    return map([&](int i) { return a.x[i] - b.x[i]; });
  }
  friend Vec operator*(Vec a, Vec b) {
    return map([&](int i) { return a.x[i] * b.x[i]; });
  }
  friend Vec operator/(Vec a, Vec b) {
    return map([&](int i) { return a.x[i] / b.x[i]; });
  }
  static Vec fma(Vec a, Vec b, Vec c) {
    return map([&](int i) { return a.x[i] * b.x[i] + c.x[i]; });
  }
  // As minps and maxps: the second operand where one is a NaN.
  static Vec min(Vec a, Vec b) {
    return map([&](int i) { return a.x[i] < b.x[i] ? a.x[i] : b.x[i]; });
  }
  static Vec max(Vec a, Vec b) {
    return map([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
  }
  static Vec abs(Vec a) {
    return map([&](int i) { return std::fabs(a.x[i]); });
  }
  static Vec round(Vec a) {
    return map([&](int i) { return std::nearbyint(a.x[i]); });
  }
  // x 2^n for integral |n| <= 254: two exact factors, so that a subnormal result is rounded once.
  static Vec scale(Vec x, Vec n) {
    return map([&](int i) {
      return std::isnan(n.x[i]) ? x.x[i] : std::ldexp(x.x[i], static_cast<int>(n.x[i]));
    });
  }
  // a where x >= 0, else b (b for a NaN)
  static Vec where_positive(Vec x, Vec a, Vec b) {
    return map([&](int i) { return x.x[i] >= 0 ? a.x[i] : b.x[i]; });
  }
  // Lane j of the result is the sum of the lanes of rows[j]: lanes l and l + 8 first, then l + 4, l
  // + 2, l + 1.
  static Vec sums(const Vec* rows) {
    return map([&](int j) {
      float t[16];
      std::memcpy(t, rows[j].x, sizeof t);
      for (int width = 8; width > 0; width /= 2)
        for (int l = 0; l < width; ++l) t[l] += t[l + width];
      return t[0];
    });
  }
  static void transpose(Vec* rows) {
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < i; ++j) {
        const float t = rows[i].x[j];
        rows[i].x[j] = rows[j].x[i];
        rows[j].x[i] = t;
      }
  }
};

}  // namespace parity::kda_kernel::portable
