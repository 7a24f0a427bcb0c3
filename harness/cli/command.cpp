#include "harness/cli/command.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/failure.hpp"
#include "harness/process.hpp"

namespace parity::cli {
namespace {

constexpr std::size_t kMostKept = 2000;  // bytes of output
constexpr int kLook = 50;                // milliseconds between looks at a quiet process

[[noreturn]] void child(const std::string& line, int out, pid_t parent) {
  if (!become_child(parent)) ::_exit(127);
  rlimit limit{};  // the address space of a case is too small for a GPU runtime
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_AS, &limit);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
  ::_exit(127);
}

// False once the other side has closed it.
bool take(int fd, std::string& kept, int wait_ms) {
  pollfd look{.fd = fd, .events = POLLIN, .revents = 0};
  if (::poll(&look, 1, wait_ms) <= 0) return true;
  std::array<char, 4096> part{};
  const ssize_t n = ::read(fd, part.data(), part.size());
  if (n <= 0) return false;
  kept.append(part.data(), static_cast<std::size_t>(n));
  if (kept.size() > 2 * kMostKept) kept.erase(0, kept.size() - kMostKept);
  return true;
}

}  // namespace

std::string CommandEnd::trouble() const {
  std::string what;
  if (timed_out)
    what = "timed out";
  else if (WIFSIGNALED(status))
    what = fmt::format("ended by signal {}", WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    what = fmt::format("ended with exit code {}", WEXITSTATUS(status));
  if (what.empty()) return "";
  return last.empty() ? what + ", without a word" : fmt::format("{}: {}", what, last);
}

CommandEnd run_command_line(const std::string& line, double seconds) {
  Pipe pipe = make_pipe();
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) throw Failure("no process for a command");
  if (pid == 0) child(line, pipe.write.get(), parent);
  pipe.write.reset();
  const Deadline deadline = after_seconds(seconds);
  CommandEnd end;
  bool open = true;
  while (poll_ms(deadline) > 0 && !has_ended(pid)) {
    const int wait = std::min(kLook, poll_ms(deadline));
    if (open)
      open = take(pipe.read.get(), end.last, wait);
    else
      ::poll(nullptr, 0, 1);
  }
  end.timed_out = !has_ended(pid);
  end.status = kill_and_reap(pid).status;
  for (int i = 0; open && i < 64; ++i) {  // what is left in the pipe, not what never ends
    const std::size_t before = end.last.size();
    open = take(pipe.read.get(), end.last, 0);
    if (end.last.size() == before) break;
  }
  if (end.last.size() > kMostKept) end.last.erase(0, end.last.size() - kMostKept);
  while (!end.last.empty() && std::isspace(static_cast<unsigned char>(end.last.back())))
    end.last.pop_back();
  for (std::size_t at = 0; (at = end.last.find('\n', at)) != std::string::npos; at += 3)
    end.last.replace(at, 1, " | ");  // a reason is one line
  return end;
}

ScratchFolder::ScratchFolder() {
  path_ = (std::filesystem::temp_directory_path() / "parity.XXXXXX").string();
  if (!::mkdtemp(path_.data())) throw UsageError(path_ + ": no folder can be made there");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace parity::cli
