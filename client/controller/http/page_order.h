#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "meshbus/rank_report.h"
#include "meshbus/result.h"

namespace meshbus {

/// What a request to act asks for. See share/openapi/controller.json.
struct PageOrder {
  enum class Verb : std::uint8_t { stop, signal, stacks };

  Verb verb;
  std::string mesh;      ///< With its uuid.
  RankSet ranks = {};    ///< Empty: all.
  std::string reason{};  ///< Why a stop is asked for; at most kMostReason bytes.
  /// How long a stop lets ranks end by themselves. Nothing: as the setting terminate.grace.
  std::optional<std::chrono::milliseconds> grace = {};
  int signal = 0;
  bool is_kernel_only = false;  ///< Stacks without stopping any thread.

  static constexpr std::size_t kMostReason = 200;

  /// `path`: "/api/stop", "/api/signal", "/api/stacks". `body`: a JSON object. Errors: not_exist
  /// (no such path), parse_error (with the field).
  static Result<PageOrder> parse(std::string_view path, std::string_view body);
};

}  // namespace meshbus
