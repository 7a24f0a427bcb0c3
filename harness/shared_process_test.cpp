// Kernels of a subject share a process while they pass (worker.cpp).
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>

#include "harness/source.hpp"
#include "harness/testing/scaled.hpp"
#include "harness/testing/suite_outcome.hpp"

namespace parity {
namespace {

using test::Outcome;
using test::run;
using test::scaled_case;

// Kernels of one subject in order: which share a process, and what one may do to the next.
struct Guests {
  static inline int spoilt = 0;  // of the process
  Subject subject = subject_of(scaled_case("test_scaled", "N5,D7"));

  void add(std::string name, std::function<void()> before) {
    Candidate c = subject_of(subject.problem).candidates.front();
    const Candidate sound = c;
    c.name = std::move(name);
    c.run = [sound, before](const RunRequest& request) {
      before();
      Observed observed = sound.run(request);
      if (spoilt > 1) observed.tensors.list().front().bytes[3] ^= std::byte{0x40};
      return observed;
    };
    subject.candidates.push_back(std::move(c));
  }
  Outcome judged() {
    subject.candidates.erase(subject.candidates.begin());
    return run({subject});
  }
};

TEST(Suite, AKernelThatFailsWhereOthersRanIsJudgedAgainAlone) {
  Guests guests;
  guests.add("first", [] { ++Guests::spoilt; });
  guests.add("spoilt_by_the_first", [] { Guests::spoilt *= 2; });
  guests.add("again", [] { ++Guests::spoilt; });
  guests.add("dies_where_another_ran", [] {
    if (Guests::spoilt > 0) std::abort();
  });
  guests.add("wrong_by_itself", [] { Guests::spoilt = 2; });
  guests.add("behind_a_failure", [] {});
  const Outcome o = guests.judged();
  ASSERT_EQ(o.records.size(), 6u);
  for (const CaseRecord& r : o.records)
    EXPECT_EQ(r.status, r.kernel == "wrong_by_itself" ? "fail" : "pass")
        << r.kernel << ": " << r.reason;
}

TEST(Suite, KernelsThatPassShareAProcessAndSubjectsDoNot) {
  Guests guests;
  guests.add("first", [] { ++Guests::spoilt; });
  guests.add("second", [] {
    if (Guests::spoilt != 1) std::abort();  // it would, by itself too
  });
  guests.subject.candidates.erase(guests.subject.candidates.begin());
  Subject other = guests.subject;
  other.candidates.erase(other.candidates.begin());
  const Outcome o = run({guests.subject, other});
  ASSERT_EQ(o.records.size(), 3u);
  EXPECT_EQ(o.records[0].status, "pass");
  EXPECT_EQ(o.records[1].status, "pass");
  EXPECT_EQ(o.records[2].error_kind, "crash");
}

}  // namespace
}  // namespace parity
