#include "reports/quantised.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "reports/json.hpp"
#include "reports/svg.hpp"

namespace parity::reports {
namespace {

Quantised sample() {
  return {.id = "quantize/M1,K32/f32/normal/s0@k",
          .check = "parity",
          .format = "e2m1",
          .values = {-6, 0, 6},
          .counts = {1, 30, 1000},
          .elements = 1031,
          .not_numbers = 2,
          .scale_format = "e8m0",
          .scales =
              Heatmap{.rows = "m", .cols = "block", .height = 1, .width = 3, .cells = {-3, NAN, 5}},
          .scale_rows = 1,
          .scale_cols = 3,
          .saturated = 0.03125,
          .sqnr = 20.4,
          .scatter = Scatter{.log2_magnitude = {0, 1}, .log2_error = {-3, -2}, .count = {5, 6}},
          .others = {{"mx<b>", 1, 0.25}}};
}

TEST(Quantised, ALineReadsBack) {
  const std::string line = to_json_line(sample());
  const auto read = std::get<Quantised>(parse_line(line));
  EXPECT_EQ(to_json_line(read), line);
  EXPECT_TRUE(std::isnan(read.scales->cells[1]));
  EXPECT_FALSE(read.underflowed);
  EXPECT_EQ(read.others.at(0).codes, 0.25);
}

TEST(Quantised, ThePageSaysWhatIsKnownAndNoMore) {
  const std::string html = html_quantised(sample());
  EXPECT_NE(html.find("1031 elements as e2m1; 2 codes of them no number; 3.12% beyond the largest "
                      "code; signal to noise 20.4 dB."),
            std::string::npos)
      << html;
  EXPECT_EQ(html.find("became zero"), std::string::npos);
  EXPECT_NE(html.find("mx&lt;b&gt;"), std::string::npos);
  EXPECT_NE(html.find("pale 2^-3 to deep 2^5"), std::string::npos);
  const std::string bare = html_quantised({.format = "e4m3", .elements = 1});
  EXPECT_EQ(bare.find("<svg"), std::string::npos);
  EXPECT_EQ(bare.find("<table"), std::string::npos);
}

TEST(Quantised, EveryCodeThatOccursHasABar) {
  const std::string picture = svg::code_histogram({-6, 0, 6}, {1, 0, 1000});
  std::size_t bars = 0;
  const std::size_t path = picture.find("class=\"bars\"");
  ASSERT_NE(path, std::string::npos);
  for (std::size_t at = path; picture[at] != '>'; ++at) bars += picture[at] == 'z' ? 1U : 0U;
  EXPECT_EQ(bars, 2U);
  EXPECT_EQ(svg::code_histogram({}, {}), "");
}

}  // namespace
}  // namespace parity::reports
