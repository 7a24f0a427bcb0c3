// TensorBoard event files of scalars, as `tensorboard` and log_events.cpp read them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>

namespace parity::io {

class EventWriter {
 public:
  // A file of its own in that folder, whose name begins with `time` (seconds since 1970).
  EventWriter(const std::filesystem::path& folder, double time);
  // One event; what stands in it is on its way to disk when this returns.
  void write(std::int64_t step, double time, std::span<const std::pair<std::string, double>>);

 private:
  void record(const std::string& message);
  std::ofstream out_;
  std::string path_;
};

}  // namespace parity::io
