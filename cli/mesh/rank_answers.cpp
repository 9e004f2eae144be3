#include "cli/mesh/rank_answers.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <variant>

#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/mesh_pattern.h"
#include "cli/support/output_writer.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "meshbus/point.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Why a rank does not answer: how it has ended, if it has.
Error with_end(const MeshReport& mesh, std::uint64_t rank, const Error& error) {
  if (error.code() != ErrorCode::no_such_proc) return error;
  // They are sorted.
  const auto found = std::lower_bound(
      mesh.ranks.begin(), mesh.ranks.end(), rank,
      [](const RankReport& one, std::uint64_t wanted) { return one.rank < wanted; });
  if (found == mesh.ranks.end() || found->rank != rank || !found->is_terminal()) return error;
  return {error.code(), "rank " + std::to_string(rank) + " has ended: " + found->words()};
}

Json error_json(const Error& error) {
  return {{"code", std::string(to_string(error.code()))}, {"text", error.detail()}};
}

/// A rank of that mesh, to add to.
Json at_rank(const Extent& extent, std::uint64_t rank) {
  const auto point = extent.point_of(rank);
  return {{"rank", rank}, {"point", point ? Json(point->to_string()) : Json(nullptr)}};
}

/// Why ranks have no part in it.
Json errors_json(const MeshReport& mesh, const RankErrors& errors) {
  Json list = Json::array();
  for (const auto& [rank, error] : errors) {
    list.push_back(at_rank(mesh.region.extent(), rank));
    list.back()["error"] = error_json(with_end(mesh, rank, error));
  }
  return list;
}

void complain_of_ranks(const MeshReport& mesh, const RankErrors& errors) {
  if (errors.empty()) return;
  const auto prefixes = make_prefixes(base_of(mesh.name), mesh.region.extent());
  for (const auto& [rank, error] : errors)
    complain(prefixes[rank] + with_end(mesh, rank, error).to_string());
}

void print_answers(const MeshReport& mesh, const RankAnswerMap& answers) {
  Json list = Json::array();
  for (const auto& [rank, answer] : answers) {
    Json one = at_rank(mesh.region.extent(), rank);
    one["answer"] = answer ? Json(*answer) : Json(nullptr);
    one["error"] = answer ? Json(nullptr) : error_json(with_end(mesh, rank, answer.error()));
    list.push_back(std::move(one));
  }
  std::cout << dump({{"mesh", mesh.name}, {"answers", list}}, 2) << "\n";
}

Json value_json(const std::optional<ReplyValue>& value) {
  if (!value) return nullptr;
  if (const auto* truth = std::get_if<bool>(&*value)) return *truth;
  if (const auto* whole = std::get_if<std::int64_t>(&*value)) return *whole;
  if (const auto* number = std::get_if<double>(&*value);
      number != nullptr && std::isfinite(*number))
    return *number;
  return to_text(*value);
}

/// Each line of an answer with its rank in front.
void print_lines(const std::string& prefix, std::string_view text) {
  do {
    const auto end = text.find('\n');
    std::cout << prefix << text.substr(0, end) << "\n";
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  } while (!text.empty());
}

}  // namespace

int show_answers(const MeshReport& mesh, const RankAnswerMap& answers, AnswerForm form) {
  int code = 0;
  const auto prefixes = make_prefixes(base_of(mesh.name), mesh.region.extent());
  for (const auto& [rank, answer] : answers) {
    if (!answer) code = kFailed;
    if (form == AnswerForm::json) continue;
    if (!answer) {
      complain(prefixes[rank] + with_end(mesh, rank, answer.error()).to_string());
    } else if (form == AnswerForm::raw) {
      std::cout << *answer;
    } else {
      print_lines(prefixes[rank], *answer);
    }
  }
  if (form == AnswerForm::json) print_answers(mesh, answers);
  return code;
}

int show_reduced(const MeshReport& mesh, const ReducedAnswer& reduced, const std::string& reducer,
                 bool json) {
  if (json) {
    std::cout << dump({{"mesh", mesh.name},
                       {"reduce", reducer},
                       {"value", value_json(reduced.value)},
                       {"ranks", reduced.ranks},
                       {"errors", errors_json(mesh, reduced.errors)}},
                      2)
              << "\n";
  } else {
    complain_of_ranks(mesh, reduced.errors);
    if (reduced.value) std::cout << to_text(*reduced.value) << "\n";
  }
  return reduced.errors.empty() ? 0 : kFailed;
}

int show_cast(const MeshReport& mesh, const RankErrors& missed, std::uint64_t ranks,
              std::size_t bytes, bool json) {
  if (json) {
    std::cout << dump({{"mesh", mesh.name},
                       {"ranks", ranks},
                       {"bytes", bytes},
                       {"errors", errors_json(mesh, missed)}},
                      2)
              << "\n";
  } else {
    complain_of_ranks(mesh, missed);
  }
  return missed.empty() ? 0 : kFailed;
}

}  // namespace meshbus::cli
