#include "cli/hands/hand_json.h"

#include <nlohmann/json.hpp>

#include "cli/support/rank_json.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string line_json(const HandRank& of, bool is_err, std::string_view line) {
  return dump({{"mesh", of.mesh},
               {"rank", of.rank},
               {"stream", is_err ? "stderr" : "stdout"},
               {"line", std::string(line)}}) +
         "\n";
}

std::string end_json(const HandRank& of, const Result<ExecEnd>& end) {
  Json json = {{"mesh", of.mesh},   {"rank", of.rank},   {"exit_code", nullptr},
               {"signal", nullptr}, {"reason", nullptr}, {"error", nullptr}};
  if (!end) {
    json["error"] = {{"code", std::string(to_string(end.error().code()))},
                     {"text", end.error().detail()}};
  } else {
    json[end->signal != 0 ? "signal" : "exit_code"] = end->signal != 0 ? end->signal : end->code;
    if (!end->reason.empty()) json["reason"] = end->reason;
  }
  return dump(json) + "\n";
}

Json copy_json(const HandRank& of, std::uint64_t files, std::uint64_t bytes,
               const std::vector<std::string>& problems) {
  return {{"mesh", of.mesh},
          {"rank", of.rank},
          {"files", files},
          {"bytes", bytes},
          {"not_done", problems}};
}

}  // namespace meshbus::cli
