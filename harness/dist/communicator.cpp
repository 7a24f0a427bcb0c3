#include "harness/dist/communicator.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace parity::dist {
namespace {

void complete(Call& call, std::string_view op, std::size_t in, std::size_t out, int group) {
  check_wire(call.dtype);
  call.op = op;
  call.in = static_cast<std::int64_t>(in);
  call.out = static_cast<std::int64_t>(out);
  call.group = group;
}

void complete(Call& call, const Reduction& r) {
  call.order = r.order;
  if (call.reduce == "-") call.reduce = r.combine == Combine::Max ? "max" : "sum";
}

}  // namespace

void Communicator::all_gather(std::span<const float> mine, std::span<float> all, Call call) {
  complete(call, "all_gather", mine.size(), all.size(), size_);
  if (all.size() != mine.size() * static_cast<std::size_t>(size_))
    throw Failure(fmt::format("all_gather: {} elements from each of {} ranks do not make {}",
                              mine.size(), size_, all.size()));
  if (size_ == 1) {
    std::ranges::copy(mine, all.begin());
    return;
  }
  trace_->calls.push_back(call);
  const std::vector<Range> whole(static_cast<std::size_t>(size_),
                                 {0, static_cast<std::int64_t>(mine.size())});
  exchange(call, mine, whole, [&](std::span<const float* const> parts) {
    for (std::size_t r = 0; r < parts.size(); ++r)
      std::copy_n(parts[r], mine.size(),
                  all.begin() + static_cast<std::ptrdiff_t>(r * mine.size()));
  });
}

void Communicator::reduce_part(std::span<const float> mine, const std::vector<Range>& parts,
                               std::span<float> out, const Reduction& r, const Call& call) {
  std::vector<float> scaled;
  if (r.before != 1) {
    scaled.assign(mine.begin(), mine.end());
    for (float& x : scaled) x = divided(call.dtype, x, r.before);
    mine = scaled;
  }
  const Plan plan =
      plan_of(r.order, size_, static_cast<std::int64_t>(mine.size()), itemsize(call.dtype));
  exchange(call, mine, parts, [&](std::span<const float* const> all) {
    combine(plan, r.combine, call.dtype, parts[static_cast<std::size_t>(rank_)].begin, all, out);
  });
  for (float& x : out) x = divided(call.dtype, x, r.after);
}

void Communicator::reduce_scatter(std::span<const float> all, std::span<float> mine,
                                  const Reduction& r, Call call) {
  complete(call, "reduce_scatter", all.size(), mine.size(), size_);
  complete(call, r);
  if (all.size() != mine.size() * static_cast<std::size_t>(size_))
    throw Failure(fmt::format("reduce_scatter: {} elements are not {} for each of {} ranks",
                              all.size(), mine.size(), size_));
  if (size_ == 1) {
    for (std::size_t i = 0; i < all.size(); ++i)
      mine[i] = divided(call.dtype, divided(call.dtype, all[i], r.before), r.after);
    return;
  }
  trace_->calls.push_back(call);
  std::vector<Range> parts;
  const auto part = static_cast<std::int64_t>(mine.size());
  for (int q = 0; q < size_; ++q) parts.push_back({q * part, (q + 1) * part});
  reduce_part(all, parts, mine, r, call);
}

void Communicator::all_reduce(std::span<float> data, const Reduction& r, Call call) {
  complete(call, "all_reduce", data.size(), data.size(), size_);
  complete(call, r);
  if (size_ == 1) {
    for (float& x : data) x = divided(call.dtype, divided(call.dtype, x, r.before), r.after);
    return;
  }
  trace_->calls.push_back(call);
  // Each rank adds its own part of the buffer, then hands it round: the work does not grow with N.
  const auto n = static_cast<std::int64_t>(data.size());
  const std::int64_t part = (n + size_ - 1) / size_;
  std::vector<Range> parts;
  for (int q = 0; q < size_; ++q)
    parts.push_back({std::min(n, q * part), std::min(n, (q + 1) * part)});
  std::vector<float> own(static_cast<std::size_t>(part));
  const Range mine = parts[static_cast<std::size_t>(rank_)];
  reduce_part(data, parts, std::span(own).first(static_cast<std::size_t>(mine.end - mine.begin)), r,
              call);
  const std::vector<Range> whole(static_cast<std::size_t>(size_), {0, part});
  exchange(call, own, whole, [&](std::span<const float* const> all) {
    for (std::size_t q = 0; q < all.size(); ++q)
      std::copy_n(all[q], parts[q].end - parts[q].begin,
                  data.begin() + static_cast<std::ptrdiff_t>(parts[q].begin));
  });
}

void Communicator::broadcast(std::span<float> data, int root, Call call) {
  complete(call, "broadcast", data.size(), data.size(), size_);
  if (root < 0 || root >= size_)
    throw Failure(fmt::format("broadcast from rank {} of {}", root, size_));
  if (size_ == 1) return;
  trace_->calls.push_back(call);
  const std::vector<Range> whole(static_cast<std::size_t>(size_),
                                 {0, static_cast<std::int64_t>(data.size())});
  std::vector<float> mine(data.begin(), data.end());
  exchange(call, mine, whole, [&](std::span<const float* const> parts) {
    std::copy_n(parts[static_cast<std::size_t>(root)], data.size(), data.begin());
  });
}

std::string mismatch(std::span<const Call> calls, std::span<const int> ranks) {
  for (std::size_t r = 1; r < calls.size(); ++r)
    if (calls[r] != calls[0])
      return fmt::format("the ranks do not call the same: rank {} calls {}; rank {} calls {}",
                         ranks[r], sentence(calls[r]), ranks[0], sentence(calls[0]));
  return {};
}

}  // namespace parity::dist
