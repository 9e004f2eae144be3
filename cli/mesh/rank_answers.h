#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "meshbus/client.h"

namespace meshbus::cli {

/// How answers of ranks are shown.
enum class AnswerForm {
  lines,  ///< Each line with its rank in front.
  raw,    ///< As they are, one behind the other.
  json,
};

/// What ranks have answered, by create rank.
using RankAnswerMap = std::map<std::uint64_t, Result<std::string>>;
/// Shows them on stdout, and on stderr why others have not answered. Returns the exit code.
int show_answers(const MeshReport& mesh, const RankAnswerMap& answers, AnswerForm form);

/// Why ranks have no part in something, by create rank.
using RankErrors = std::map<std::uint64_t, Error>;

/// What ranks have answered, as one value.
struct ReducedAnswer {
  std::optional<ReplyValue> value = {};
  std::uint64_t ranks = 0;
  RankErrors errors = {};
};
/// The same for it. `reducer`: its name.
int show_reduced(const MeshReport& mesh, const ReducedAnswer& reduced, const std::string& reducer,
                 bool json);

/// Shows what became of a cast. `ranks`, `bytes`: to how many it went, and its size.
int show_cast(const MeshReport& mesh, const RankErrors& missed, std::uint64_t ranks,
              std::size_t bytes, bool json);

}  // namespace meshbus::cli
