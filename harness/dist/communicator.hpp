// One interface over ranks that are threads of this process, processes of MPI, or GPUs. A member
// only moves bytes (exchange); what a collective means, in which order it adds and where it rounds
// is written once, above the members. Values travel as floats on the grid of the wire's type.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "harness/dist/trace.hpp"
#include "harness/failure.hpp"

namespace parity::dist {

// Ranks that do not call the same, a rank that is gone or does not come: the sentence says which.
class CollectiveError : public Failure {
 public:
  using Failure::Failure;
};

struct Reduction {
  Combine combine = Combine::Sum;
  Order order = Order::Rank;
  double before = 1, after = 1;  // true divisions of each contribution, and of the result
};

struct Range {
  std::int64_t begin = 0, end = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  const Trace& trace() const { return *trace_; }

  // `call` says who and where; sizes, group and reduction are filled in here, and it is recorded.
  // A group of one calls nobody and leaves no trace.
  void all_gather(std::span<const float> mine, std::span<float> all, Call call);
  // `all` has a part for each rank; rank r gets the combined part r.
  void reduce_scatter(std::span<const float> all, std::span<float> mine, const Reduction&,
                      Call call);
  void all_reduce(std::span<float> data, const Reduction&, Call call);
  void broadcast(std::span<float> data, int root, Call call);
  // The ranks of this communicator that the list names, in its order; all of them call it.
  virtual std::unique_ptr<Communicator> group(const std::vector<int>& ranks) = 0;

 protected:
  Communicator(int rank, int size, std::shared_ptr<Trace> trace)
      : rank_(rank), size_(size), trace_(std::move(trace)) {}
  // Gives `mine` and reads of every rank's buffer the same range, wanted[rank()]; wanted[q] is what
  // rank q reads. Ranks whose calls differ all throw CollectiveError.
  using Reader = std::function<void(std::span<const float* const> parts)>;
  virtual void exchange(const Call&, std::span<const float> mine, const std::vector<Range>& wanted,
                        const Reader&) = 0;
  const std::shared_ptr<Trace>& shared_trace() const { return trace_; }

 private:
  void reduce_part(std::span<const float> mine, const std::vector<Range>& parts,
                   std::span<float> out, const Reduction&, const Call&);
  int rank_, size_;
  std::shared_ptr<Trace> trace_;  // one for all groups of a rank
};

// Why the calls of one meeting do not go together; "" where they do.
std::string mismatch(std::span<const Call> calls, std::span<const int> ranks);

}  // namespace parity::dist
