// The members of MPI: headers first, from each rank to each, so that a call that does not match, a
// rank that is gone and one that does not come are known before any data moves; then the data.
#define OMPI_SKIP_MPICXX 1
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mpi.h>
#include <thread>

#include "harness/dist/communicator.hpp"

namespace parity::dist {
namespace {

constexpr int kHeaderTag = 7;
constexpr std::size_t kHeader = 1024;  // bytes, zero-terminated text
using Header = std::array<char, kHeader>;

// What all groups of this process share: once the ranks have lost each other no collective can
// succeed.
struct Shared {
  double patience_s = 20;
  std::string broken = {};
};

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw CollectiveError(fmt::format("{}: {}", what, text.data()));
}

// Everything that must be the same on all ranks, then words for people.
Header header_of(const Call& call) {
  Header header{};
  const std::string text =
      fmt::format("{} {} {}\n{}", line(call), call.parameter, name(call.order), sentence(call));
  std::copy_n(text.begin(), std::min(text.size(), kHeader - 1), header.begin());
  return header;
}
std::string key_of(const Header& header) {
  const std::string text = header.data();
  return text.substr(0, text.find('\n'));
}
std::string words_of(const Header& header) {
  const std::string text = header.data();
  return text.substr(text.find('\n') + 1);
}

class MpiRank final : public Communicator {
 public:
  MpiRank(MPI_Comm comm, int rank, std::vector<int> world_ranks, std::shared_ptr<Trace> trace,
          std::shared_ptr<Shared> shared)
      : Communicator(rank, static_cast<int>(world_ranks.size()), std::move(trace)),
        comm_(comm),
        ranks_(std::move(world_ranks)),
        shared_(std::move(shared)) {}

  std::unique_ptr<Communicator> group(const std::vector<int>& ranks) override {
    std::vector<int> members;
    int place = -1;
    for (const int r : ranks) {
      if (r == rank()) place = static_cast<int>(members.size());
      members.push_back(ranks_.at(static_cast<std::size_t>(r)));
    }
    if (place < 0) throw Failure(fmt::format("rank {} is not in the group it asks for", rank()));
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_group(comm_, &all), "MPI_Comm_group");
    check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some),
          "MPI_Group_incl");
    check(MPI_Comm_create_group(comm_, some, ranks.front(), &comm), "MPI_Comm_create_group");
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return std::make_unique<MpiRank>(comm, place, members, shared_trace(), shared_);
  }

 protected:
  void exchange(const Call& call, std::span<const float> mine, const std::vector<Range>& wanted,
                const Reader& read) override {
    meet(call);
    const auto item = static_cast<std::size_t>(itemsize(call.dtype));
    std::vector<std::byte> packed(mine.size() * item);
    const std::vector<double> wide(mine.begin(), mine.end());
    narrow(call.dtype, wide, 0, packed.data());
    const auto n = static_cast<std::size_t>(size());
    std::vector<int> give(n), give_at(n), take(n), take_at(n);
    const Range own = wanted[static_cast<std::size_t>(rank())];
    const auto each = static_cast<std::size_t>(own.end - own.begin);
    for (std::size_t q = 0; q < n; ++q) {
      give[q] = static_cast<int>(static_cast<std::size_t>(wanted[q].end - wanted[q].begin) * item);
      give_at[q] = static_cast<int>(static_cast<std::size_t>(wanted[q].begin) * item);
      take[q] = static_cast<int>(each * item);
      take_at[q] = static_cast<int>(q * each * item);
    }
    std::vector<std::byte> got(n * each * item);
    check(MPI_Alltoallv(packed.data(), give.data(), give_at.data(), MPI_BYTE, got.data(),
                        take.data(), take_at.data(), MPI_BYTE, comm_),
          "MPI_Alltoallv");
    std::vector<double> values(n * each);
    widen(call.dtype, got.data(), 0, values);
    std::vector<float> narrow_values(values.begin(), values.end());
    std::vector<const float*> parts;
    for (std::size_t q = 0; q < n; ++q) parts.push_back(narrow_values.data() + q * each);
    read(parts);
  }

 private:
  [[noreturn]] void lose(const std::string& why) {
    shared_->broken = why;
    throw CollectiveError(why);
  }

  // Headers of all ranks, or why there are none.
  void meet(const Call& call) {
    if (!shared_->broken.empty())
      throw CollectiveError("the ranks lost each other before: " + shared_->broken);
    const auto n = static_cast<std::size_t>(size());
    std::vector<Header> headers(n);
    headers[static_cast<std::size_t>(rank())] = header_of(call);
    const Header& mine = headers[static_cast<std::size_t>(rank())];
    std::vector<MPI_Request> requests;
    std::map<std::size_t, std::size_t> receives;  // request -> rank
    for (std::size_t q = 0; q < n; ++q) {
      if (static_cast<int>(q) == rank()) continue;
      receives[requests.size()] = q;
      check(MPI_Irecv(headers[q].data(), kHeader, MPI_CHAR, static_cast<int>(q), kHeaderTag, comm_,
                      &requests.emplace_back()),
            "MPI_Irecv");
    }
    for (std::size_t q = 0; q < n; ++q)
      if (static_cast<int>(q) != rank())
        check(MPI_Isend(mine.data(), kHeader, MPI_CHAR, static_cast<int>(q), kHeaderTag, comm_,
                        &requests.emplace_back()),
              "MPI_Isend");
    const auto start = std::chrono::steady_clock::now();
    for (int done = 0; done == 0;) {
      check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                        MPI_STATUSES_IGNORE),
            "MPI_Testall");
      if (done != 0) break;
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      if (waited.count() > shared_->patience_s) give_up(call, headers, requests, receives);
      if (waited.count() > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    for (std::size_t q = 1; q < n; ++q)
      if (key_of(headers[q]) != key_of(headers[0]))
        lose(fmt::format("the ranks do not call the same: rank {} calls {}; rank {} calls {}",
                         ranks_[q], words_of(headers[q]), ranks_[0], words_of(headers[0])));
  }

  [[noreturn]] void give_up(const Call& call, const std::vector<Header>& headers,
                            std::vector<MPI_Request>& requests,
                            const std::map<std::size_t, std::size_t>& receives) {
    std::vector<int> missing;
    for (const auto& [request, q] : receives)
      if (requests[request] != MPI_REQUEST_NULL && headers[q].front() == '\0')
        missing.push_back(ranks_[q]);
    for (MPI_Request& request : requests)
      if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
    lose(fmt::format("rank{} {} did not come within {} s; rank {} waits in {}",
                     missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), shared_->patience_s,
                     ranks_[static_cast<std::size_t>(rank())], sentence(call)));
  }

  MPI_Comm comm_;
  std::vector<int> ranks_;  // of the world
  std::shared_ptr<Shared> shared_;
};

void finish() {
  int over = 0;
  MPI_Finalized(&over);
  if (over == 0) MPI_Finalize();
}

}  // namespace
}  // namespace parity::dist

// Opened once, by dlsym.
extern "C" __attribute__((visibility("default"))) parity::dist::Communicator* parity_mpi_world(
    double patience_s) {
  using namespace parity::dist;
  int there = 0;
  MPI_Initialized(&there);
  if (there == 0) {
    check(MPI_Init(nullptr, nullptr), "MPI_Init");
    std::atexit(finish);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  auto shared = std::make_shared<Shared>(Shared{.patience_s = patience_s});
  return new MpiRank(MPI_COMM_WORLD, rank, ranks, std::make_shared<Trace>(Trace{.rank = rank}),
                     std::move(shared));
}
