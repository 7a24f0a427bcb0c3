// Asking for devices in a child process. The answer comes back through a pipe as lines of text:
//   driver version
//   runtime version
//   reason, may be empty
//   major minor multiprocessors memory free name           one line per device
#include "harness/cuda/device_info.hpp"

#include <cerrno>
#include <cstddef>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace parity {
namespace {

std::string print(const DeviceReport& report) {
  std::ostringstream out;
  out << report.driver_version << '\n' << report.runtime_version << '\n' << report.reason << '\n';
  for (const DeviceInfo& d : report.devices) {
    out << d.major << ' ' << d.minor << ' ' << d.multiprocessors << ' ' << d.memory_bytes << ' '
        << d.free_bytes << ' ' << d.name << '\n';
  }
  return out.str();
}

DeviceReport parse(const std::string& text) {
  DeviceReport report;
  std::istringstream in(text);
  in >> report.driver_version >> report.runtime_version;
  in.ignore(1);
  std::getline(in, report.reason);
  if (!in) return {.reason = "the process that asked for devices died before it answered"};
  DeviceInfo d;
  while (in >> d.major >> d.minor >> d.multiprocessors >> d.memory_bytes >> d.free_bytes) {
    in.ignore(1);
    std::getline(in, d.name);
    report.devices.push_back(d);
  }
  return report;
}

// write(2) until done; false when the reader is gone.
bool write_all(int file, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

std::string read_all(int file) {
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t n = read(file, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(part, static_cast<std::size_t>(n));
  }
}

}  // namespace

DeviceReport query_devices() {
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return {.reason = "no pipe for the process that asks for devices"};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    _exit(write_all(ends[1], print(query_devices_here())) ? 0 : 1);
  }
  close(ends[1]);
  const std::string text = child > 0 ? read_all(ends[0]) : std::string();
  close(ends[0]);
  if (child < 0) return {.reason = "no process to ask for devices with"};
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return parse(text);
}

std::string DeviceInfo::sm() const { return "sm_" + std::to_string(major) + std::to_string(minor); }

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace parity
