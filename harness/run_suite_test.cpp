#include <algorithm>
#include <chrono>
#include <dirent.h>
#include <dlfcn.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <new>
#include <set>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "harness/failure.hpp"
#include "harness/testing/evil.hpp"
#include "harness/testing/scaled.hpp"
#include "harness/testing/suite_outcome.hpp"
#include "harness/worker.hpp"

namespace parity {
namespace {

using test::Outcome;
using test::quick;
using test::run;
using test::scaled_case;
using ::testing::HasSubstr;

std::size_t open_descriptors() {
  std::size_t n = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir)) ++n;
  closedir(dir);
  return n;
}

bool has_children() { return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD; }

TEST(Suite, SoundKernelsPassForwardAndBackward) {
  const Outcome o = run({subject_of(scaled_case("test_scaled", "N5,D7")),
                         subject_of(scaled_case("test_scaled", "N64,D33", Dtype::BF16))});
  ASSERT_EQ(o.records.size(), 2u);
  for (const CaseRecord& r : o.records) {
    EXPECT_EQ(r.status, "pass") << r.reason;
    EXPECT_EQ(r.direction, "both");
    EXPECT_EQ(r.tensors.size(), 3u);
    EXPECT_EQ(r.accounting.produced, r.accounting.compared);
    EXPECT_GT(r.accounting.produced, 0);
    EXPECT_TRUE(r.hw_verified);
    EXPECT_GT(r.time_ms.kernel, 0);
    EXPECT_EQ(r.repro, "parity run '" + r.id + "'");
  }
  EXPECT_EQ(o.records[0].id, "test_scaled/N5,D7/f32/normal/s0@test_scaled.plain");
  EXPECT_EQ(o.result.exit, 0);
  EXPECT_EQ(o.result.counts.pass, 2);
}

// One suite over all of them: each gets its own verdict, and none costs another one.
class EvilKernels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    SuiteOptions options = quick();
    options.timeout_s = 3;
    options.jobs = 3;  // those that use up their time do so side by side
    const Case problem =
        scaled_case("test_evil", "N5,D7", Dtype::F32, Check::Parity, {{"codes", "1"}});
    std::vector<Subject> subjects(3, subject_of(problem));
    std::erase_if(subjects[0].candidates, sleeps),
        std::erase_if(subjects[1].candidates, std::not_fn(sleeps));
    subjects[2].candidates = {subjects[1].candidates.back()}, subjects[1].candidates.pop_back();
    outcome_ = new Outcome(run(subjects, options));
  }
  static void TearDownTestSuite() { delete outcome_; }
  static bool sleeps(const Candidate& c) {
    return c.name == "test_evil.hangs" || c.name == "test_evil.stops";
  }
  static const CaseRecord* record_of(const std::string& kernel) {
    for (const CaseRecord& r : outcome_->records)
      if (r.kernel == "test_evil." + kernel) return &r;
    return nullptr;
  }
  static Outcome* outcome_;
};
Outcome* EvilKernels::outcome_ = nullptr;

TEST_F(EvilKernels, EachIsNamedForWhatItDid) {
  ASSERT_EQ(outcome_->records.size(), test::evils().size());
  for (const test::Evil& evil : test::evils()) {
    const CaseRecord* r = record_of(std::string(evil.name));
    ASSERT_NE(r, nullptr) << evil.name;
    EXPECT_EQ(r->status, evil.status) << evil.name << ": " << r->reason;
    EXPECT_EQ(r->error_kind, evil.error_kind) << evil.name << ": " << r->reason;
    EXPECT_EQ(r->view, evil.view) << evil.name << ": " << r->reason;
    EXPECT_THAT(r->reason, HasSubstr(std::string(evil.complaint))) << evil.name;
  }
}

TEST_F(EvilKernels, RecordsKeepTheOrderOfTheCandidates) {
  std::vector<std::string> names;
  for (const CaseRecord& r : outcome_->records) names.push_back(r.kernel);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end() - 2));
  EXPECT_EQ(names.back(), "test_evil.stops");
}

TEST_F(EvilKernels, ExitIsThatOfTheBrokenHarness) {
  EXPECT_EQ(outcome_->result.exit, 2);  // one answer could not be read
  EXPECT_FALSE(has_children());
}

TEST(Suite, ExitSeparatesCrashFromFailure) {
  const Case problem = scaled_case("test_evil", "N5,D7");
  EXPECT_EQ(run({subject_of(problem, "test_evil.crashes")}).result.exit, 3);
  EXPECT_EQ(run({subject_of(problem, "test_evil.wrong")}).result.exit, 1);
  EXPECT_EQ(run({subject_of(problem, "test_evil.wrong"), subject_of(problem, "test_evil.crashes")})
                .result.exit,
            1);
  EXPECT_EQ(run({}).result.exit, 4);
  EXPECT_EQ(run({subject_of(problem, "test_evil.no_such")}).result.exit, 4);
  // Named in full, a kernel says why it does not take the dtype; nothing else ran.
  const Outcome refused =
      run({subject_of(scaled_case("test_evil", "N5,D7", Dtype::BF16), "test_evil.wrong")});
  ASSERT_EQ(refused.records.size(), 1u);
  EXPECT_EQ(refused.records[0].status, "unsupported");
  EXPECT_EQ(refused.records[0].reason, "takes f32, not bf16");
  EXPECT_EQ(refused.result.exit, 4);
}

TEST(Suite, DirectionsNarrowTheWalk) {
  const Case problem = scaled_case("test_scaled", "N5,D7");
  SuiteOptions options = quick();
  options.direction = Direction::Forward;
  Outcome o = run({subject_of(problem)}, options);
  ASSERT_EQ(o.records.at(0).tensors.size(), 1u);
  EXPECT_EQ(o.records[0].direction, "forward");
  EXPECT_EQ(o.records[0].status, "pass") << o.records[0].reason;
  EXPECT_EQ(o.records[0].repro, "parity run '" + o.records[0].id + "' --direction forward");
  options.direction = Direction::Backward;
  o = run({subject_of(problem)}, options);
  ASSERT_EQ(o.records.at(0).tensors.size(), 2u);
  EXPECT_EQ(o.records[0].status, "pass") << o.records[0].reason;
}

TEST(Suite, ResumeSkipsWhatIsFinished) {
  const std::vector<Subject> subjects = {
      subject_of(scaled_case("test_scaled", "N5,D7")),
      subject_of(scaled_case("test_scaled", "N64,D33")),
      subject_of(scaled_case("test_scaled", "N5,D7", Dtype::F32, Check::Bitwise))};
  const Outcome whole = run(subjects);
  ASSERT_EQ(whole.records.size(), 3u);
  SuiteOptions options = quick();
  options.finished = {record_key(whole.records[0])};
  const Outcome rest = run(subjects, options);
  ASSERT_EQ(rest.records.size(), 2u);
  EXPECT_EQ(rest.records[0].id, whole.records[1].id);
  EXPECT_EQ(rest.records[1].check, "bitwise");  // same id as the first, another key
  EXPECT_EQ(rest.records[1].id, whole.records[0].id);
}

Subject with_truth(std::function<Expected(const Tensors&)> truth) {
  Subject s = subject_of(scaled_case("test_scaled", "N5,D7"));
  s.truth = std::move(truth);
  return s;
}

TEST(Suite, ATruthThatFailsCostsItsSubjectOnly) {
  SuiteOptions options = quick();
  options.timeout_s = 1;
  options.jobs = 2;
  const Outcome o =
      run({with_truth([](const Tensors&) -> Expected { throw Failure("no truth today"); }),
           with_truth([](const Tensors&) -> Expected { std::abort(); }),
           with_truth([](const Tensors&) -> Expected {
             for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
           }),
           with_truth([](const Tensors&) -> Expected { throw std::bad_alloc(); }),
           with_truth([](const Tensors&) -> Expected {
             std::thread([] { throw std::bad_alloc(); }).join();
             return {};
           }),
           subject_of(scaled_case("test_scaled", "N5,D7"))},
          options);
  ASSERT_EQ(o.records.size(), 6u);
  EXPECT_EQ(o.records[0].error_kind, "harness");
  EXPECT_THAT(o.records[0].reason, HasSubstr("no truth today"));
  EXPECT_EQ(o.records[1].error_kind, "crash");
  EXPECT_THAT(o.records[1].reason, HasSubstr("truth: killed by SIGABRT"));
  EXPECT_EQ(o.records[2].error_kind, "timeout");
  EXPECT_EQ(o.records[3].error_kind, "memory");
  EXPECT_EQ(o.records[4].error_kind, "memory");
  EXPECT_THAT(o.records[4].reason, HasSubstr("truth: out of memory"));
  EXPECT_EQ(o.records[5].status, "pass") << o.records[5].reason;
}

TEST(Suite, ARefusingTruthMakesTheCaseUnsupported) {
  const Outcome o = run({with_truth([](const Tensors&) { return Expected{.refused = "odd"}; })});
  EXPECT_EQ(o.records.at(0).status, "unsupported");
  EXPECT_EQ(o.result.exit, 4);
}

TEST(Suite, TruthThatLeavesATensorOutIsNoProof) {
  const Outcome o = run({with_truth([](const Tensors& in) {
    const Case c = scaled_case("test_scaled", "N5,D7");
    Expected all = registry().op_or_throw(c.op).reference(c, in, true);
    all.tensors.pop_back();
    return all;
  })});
  EXPECT_EQ(o.records.at(0).status, "unproven") << o.records[0].reason;
  EXPECT_LT(o.records[0].accounting.compared, o.records[0].accounting.produced);
  EXPECT_EQ(o.result.exit, 4);
}

TEST(Suite, InThisProcessGivesTheSameRecords) {
  const std::vector<Subject> subjects = {
      subject_of(scaled_case("test_scaled", "N5,D7")),
      subject_of(scaled_case("test_evil", "N5,D7"), "test_evil.after_end"),
      subject_of(scaled_case("test_evil", "N5,D7"), "test_evil.throws")};
  Outcome isolated = run(subjects);
  SuiteOptions options = quick();
  options.isolate = false;
  Outcome here = run(subjects, options);
  ASSERT_EQ(here.records.size(), isolated.records.size());
  for (std::size_t i = 0; i < here.records.size(); ++i) {
    here.records[i].time_ms = isolated.records[i].time_ms = {};
    EXPECT_EQ(to_wire(here.records[i]), to_wire(isolated.records[i])) << here.records[i].id;
  }
}

TEST(Suite, HundredsOfCasesLeakNothing) {
  const std::size_t before = open_descriptors();
  std::vector<Subject> subjects(300, subject_of(scaled_case("test_scaled", "N5,D7")));
  for (std::size_t i = 0; i < subjects.size(); i += 50)
    subjects[i] = subject_of(scaled_case("test_evil", "N5,D7"), "test_evil.crashes");
  SuiteOptions options = quick();
  options.jobs = 4;
  const Outcome o = run(subjects, options);
  EXPECT_EQ(o.result.counts.pass, 294);
  EXPECT_EQ(o.result.counts.error, 6);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_FALSE(has_children());
}

TEST(Suite, ProgressCountsToTheEnd) {
  std::vector<Progress> seen;
  run_suite(
      {subject_of(scaled_case("test_scaled", "N5,D7")),
       subject_of(scaled_case("test_scaled", "N64,D33"))},
      quick(), [](const CaseRecord&) {}, [&](const Progress& p) { seen.push_back(p); });
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen.back().done, 2);
  EXPECT_EQ(seen.back().total, 2);
}

TEST(Suite, ASinkThatThrowsEndsTheRunAndItsChildren) {
  const std::vector<Subject> subjects = {
      subject_of(scaled_case("test_scaled", "N5,D7")),
      subject_of(scaled_case("test_evil", "N5,D7"), "test_evil.hangs")};
  EXPECT_THROW(run_suite(subjects, quick(), [](const CaseRecord&) { throw Failure("disk full"); }),
               Failure);
  EXPECT_FALSE(has_children());
}

// In a process of its own, which the signal ends after its first record.
TEST(Suite, ASignalEndsTheRunAfterWhatIsFinished) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Pipe pipe = make_pipe();
    const pid_t pid = fork();
    if (pid == 0) {
      ::signal(signal, SIG_DFL);  // a shell's background job starts with SIGINT ignored
      run_suite({subject_of(scaled_case("test_scaled", "N5,D7")),
                 subject_of(scaled_case("test_evil", "N5,D7"), "test_evil.hangs")},
                quick(), [&](const CaseRecord& r) {
                  if (write(pipe.write.get(), r.id.data(), r.id.size()) > 0) kill(getpid(), signal);
                });
      _exit(0);
    }
    pipe.write.reset();
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    char text[256];
    const ssize_t n = read(pipe.read.get(), text, sizeof text);
    ASSERT_GT(n, 0);
    EXPECT_EQ(std::string(text, static_cast<std::size_t>(n)),
              "test_scaled/N5,D7/f32/normal/s0@test_scaled.plain");
    EXPECT_EQ(read(pipe.read.get(), text, sizeof text), 0);  // nobody is left who could write
  }
}

TEST(Suite, AKilledSuiteLeavesNoChildren) {
  Pipe pipe = make_pipe();
  const pid_t pid = fork();
  if (pid == 0) {
    run_suite({subject_of(scaled_case("test_evil", "N5,D7"), "test_evil.hangs")}, quick(),
              [](const CaseRecord&) {});
    _exit(0);
  }
  pipe.write.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(
      300));  // long enough to be hanging; the outcome does not depend on it
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  char c = 0;
  EXPECT_EQ(read(pipe.read.get(), &c, 1),
            0);  // the end of the pipe: every copy of its other end is closed
}

// As the registry of a build lists a kernel of a library that is not loaded: without its functions.
Subject with_library_kernel(std::string name) {
  Subject s = subject_of(scaled_case("test_scaled", "N5,D7"));
  Candidate torch = s.candidates[0];
  torch.name = std::move(name);
  torch.environment = "torch";
  torch.run = {};
  s.candidates.push_back(torch);
  return s;
}

TEST(Suite, AKernelOfALibraryRunsInAProcessThatHasLoadedIt) {
  Dl_info hub{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&record_key), &hub), 0);
  SuiteOptions options = quick();
  options.torch_library = hub.dli_fname;  // any library will do
  std::vector<Subject> subjects(20, with_library_kernel("test_scaled.plain"));
  subjects.push_back(subject_of(scaled_case("test_evil", "N5,D7"), "test_evil.crashes"));
  subjects.push_back(with_library_kernel("test_scaled.not_in_it"));
  for (Candidate& c : subjects[20].candidates) c.environment = "torch", c.run = {};
  const std::size_t before = open_descriptors();
  const Outcome o = run(subjects, options);
  ASSERT_EQ(o.records.size(), 43u);
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_EQ(o.records[i].status, "pass") << o.records[i].reason;
  EXPECT_EQ(o.records[40].error_kind, "crash") << o.records[40].reason;
  EXPECT_EQ(o.records[41].status, "pass");
  EXPECT_EQ(o.records[42].status, "unsupported");
  EXPECT_THAT(o.records[42].reason, HasSubstr("does not hold this kernel"));
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_FALSE(has_children());
}

TEST(Suite, AMissingLibraryIsAReason) {
  const Subject s = with_library_kernel("test_scaled.torch");
  SuiteOptions options = quick();
  options.torch_library = "/no/such/libparity_torch.so";
  const Outcome o = run({s, s}, options);
  ASSERT_EQ(o.records.size(), 4u);
  for (const std::size_t i : {0u, 2u}) {
    EXPECT_EQ(o.records[i].status, "pass") << o.records[i].reason;
    EXPECT_EQ(o.records[i + 1].status, "unsupported");
    EXPECT_THAT(o.records[i + 1].reason, HasSubstr("cannot be loaded"));
  }
}

}  // namespace
}  // namespace parity
