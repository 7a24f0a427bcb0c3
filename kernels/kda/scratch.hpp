// Scratch memory of one worker, 64-byte aligned. It starts as NaN, so that a row that nobody wrote
// shows in the results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

namespace parity::kda_kernel {

class Scratch {
 public:
  explicit Scratch(std::int64_t floats)
      : size_(floats),
        data_(static_cast<float*>(
            std::aligned_alloc(64, static_cast<std::size_t>(floats + 16) / 16 * 64))) {
    if (!data_) throw std::bad_alloc();
    std::fill_n(data_.get(), size_, std::numeric_limits<float>::quiet_NaN());
  }
  void restart() { used_ = 0; }
  // Multiples of 16 floats keep the alignment.
  float* take(std::int64_t floats) {
    if (used_ + floats > size_) throw std::bad_alloc();
    used_ += floats;
    return data_.get() + used_ - floats;
  }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::int64_t size_ = 0, used_ = 0;
  std::unique_ptr<float[], Free> data_;
};

}  // namespace parity::kda_kernel
