// parity show --checkpoint on files that are as large as a model and hold nothing but zeros.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "golden/io/bytes.hpp"
#include "golden/io/tensor_file.hpp"
#include "harness/cli/command_line_test.hpp"
#include "references/checkpoint/inventory.hpp"
#include "references/checkpoint/names.hpp"

namespace parity::cli {
namespace {

using checkpoint::StoredTensor;

class Checkpoints : public CommandLine {
 protected:
  // A header, and a hole in place of the values.
  void sparse(const std::string& file, const std::vector<StoredTensor>& list) const {
    nlohmann::ordered_json header;
    std::int64_t at = 0;
    for (const StoredTensor& t : list) {
      std::int64_t bytes = static_cast<std::int64_t>(bytes_for(t.dtype, 1));
      for (const std::int64_t extent : t.shape) bytes *= extent;
      header[t.name] = {{"dtype", t.dtype == Dtype::BF16 ? "BF16" : "F32"},
                        {"shape", t.shape},
                        {"data_offsets", {at, at + bytes}}};
      at += bytes;
    }
    const std::string text = header.dump();
    std::string bytes;
    io::put_little_endian(bytes, text.size(), 8);
    put(file, bytes + text);
    fs::resize_file(dir / file, bytes.size() + text.size() + static_cast<std::uintmax_t>(at));
  }
  const std::vector<StoredTensor> debug = checkpoint::inventory(checkpoint::debug_model());
};

TEST_F(Checkpoints, AWholeOneMissesNothing) {
  sparse("m.safetensors", debug);
  const Ran ran = parity("show --checkpoint m.safetensors --model debug");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("model debug (100032452 parameters) by released names"), std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("language_model.model.layers.#.self_attn.q_a_proj.weight"),
            std::string::npos);
  const auto json = nlohmann::json::parse(parity("show --checkpoint m.safetensors --json").out);
  EXPECT_EQ(json["tensors"], debug.size());
  EXPECT_EQ(json["exit"], 0);
}

TEST_F(Checkpoints, NamesOfTorchtitanAreKnown) {
  std::vector<StoredTensor> list;
  for (const StoredTensor& t : debug)
    for (const std::string& name :
         checkpoint::torchtitan_names(checkpoint::debug_model(), t.name)) {
      list.push_back(t);
      list.back().name = name;
      if (t.name.find("wqkv") != std::string::npos) list.back().shape[0] /= 3;
    }
  sparse("t.safetensors", list);
  const Ran ran = parity("show --checkpoint t.safetensors --model debug");
  EXPECT_EQ(ran.exit, 0) << ran.out;
  EXPECT_NE(ran.out.find("by torchtitan names"), std::string::npos) << ran.out;
}

TEST_F(Checkpoints, WhatIsWrongIsNamed) {
  std::vector<StoredTensor> list = debug;
  list[0].name = "model.extra.weight";
  list[3].shape = {7, 3};
  sparse("m.safetensors", list);
  const Ran ran = parity("show --checkpoint m.safetensors --model debug --json");
  EXPECT_EQ(ran.exit, 1);
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["missing"], (std::vector<std::string>{"model.embed_tokens.weight"}));
  EXPECT_EQ(json["unexpected"], (std::vector<std::string>{"model.extra.weight"}));
  EXPECT_EQ(json["shapes"].size(), 1u);
  EXPECT_NE(json["shapes"][0].get<std::string>().find("7x3"), std::string::npos);
}

TEST_F(Checkpoints, PaddingIsZero) {
  for (const double pad : {0.0, 1e-30}) {
    std::vector<double> values(128, 0.5);
    std::fill(values.begin() + 96, values.end(), 0.0);
    values[100] = pad;
    Tensors tensors;
    tensors.add(make_tensor({.name = "language_model.model.layers.0.self_attn.A_log",
                             .dtype = Dtype::F32,
                             .dims = {{"H", 128}}},
                            values));
    io::write(dir / "a.safetensors", tensors, {});
    const auto json =
        nlohmann::json::parse(parity("show --checkpoint a.safetensors --model k3 --json").out);
    EXPECT_EQ(json["padding"].size(), pad == 0 ? 0u : 1u);
    EXPECT_EQ(json["exit"], 1);  // all the rest is missing
  }
}

TEST_F(Checkpoints, WrongUseIsRefused) {
  expect_refused("show --model k3", "--checkpoint");
  expect_refused("show --checkpoint gone.safetensors", "no such file");
  sparse("m.safetensors", {debug[1]});
  expect_refused("show --checkpoint m.safetensors --model k4", "k3 or debug");
  expect_refused("show --checkpoint m.safetensors an/id", "no id");
}

}  // namespace
}  // namespace parity::cli
