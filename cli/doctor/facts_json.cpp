#include "cli/doctor/facts_json.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <utility>

namespace meshbus::cli::doctor {
namespace {

using Json = nlohmann::ordered_json;

/// No limit is null.
Json limit_json(std::uint64_t limit) {
  return limit == kUnlimited ? Json(nullptr) : Json(limit);
}
std::uint64_t limit_of(const Json& json) {
  return json.is_null() ? kUnlimited : json.get<std::uint64_t>();
}

template <typename Value>
Json optional_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}
template <typename Value>
std::optional<Value> optional_of(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional<Value>(json.get<Value>());
}

Json soft_hard_json(const SoftHard& limit) {
  return {{"soft", limit_json(limit.soft)}, {"hard", limit_json(limit.hard)}};
}
SoftHard soft_hard_of(const Json& json) {
  return {limit_of(json.at("soft")), limit_of(json.at("hard"))};
}

Json storage_json(const StorageFacts& storage) {
  return {{"use", storage.use},
          {"path", storage.path},
          {"problem", storage.problem},
          {"free_bytes", storage.free_bytes},
          {"size_bytes", storage.size_bytes},
          {"free_files", optional_json(storage.free_files)},
          {"device", storage.device}};
}
StorageFacts storage_of(const Json& json) {
  return {.use = json.at("use"),
          .path = json.at("path"),
          .problem = json.at("problem"),
          .free_bytes = json.at("free_bytes"),
          .size_bytes = json.at("size_bytes"),
          .free_files = optional_of<std::uint64_t>(json.at("free_files")),
          .device = json.at("device")};
}

Json tasks_json(const TaskFacts& tasks) {
  return {{"used", tasks.used}, {"limit", limit_json(tasks.limit)}, {"source", tasks.source}};
}
TaskFacts tasks_of(const Json& json) {
  return {json.at("used"), limit_of(json.at("limit")), json.at("source")};
}

Json key_json(const KeyFacts& key) {
  return {{"path", key.path}, {"problem", key.problem}, {"expires", optional_json(key.expires)}};
}
KeyFacts key_of(const Json& json) {
  return {json.at("path"), json.at("problem"), optional_of<std::int64_t>(json.at("expires"))};
}

HostFacts facts_of(const Json& json) {
  HostFacts facts;
  facts.version = json.at("version");
  facts.is_root = json.at("root");
  facts.descriptors = soft_hard_of(json.at("descriptors"));
  facts.locked_memory = soft_hard_of(json.at("locked_memory"));
  facts.has_infiniband = json.at("infiniband");
  if (const auto& tasks = json.at("tasks"); !tasks.is_null()) facts.tasks = tasks_of(tasks);
  for (const auto& one : json.at("storage")) facts.storage.push_back(storage_of(one));
  const auto& name = json.at("name");
  facts.name = {name.at("name"), name.at("addresses"), name.at("problem")};
  facts.is_clock_synchronised = json.at("clock_synchronised");
  facts.cgroup_problem = json.at("cgroup_problem");
  facts.has_systemd = json.at("systemd");
  const auto& session = json.at("session");
  facts.session = {session.at("scope"), session.at("killed_at_logout"),
                   session.at("run_directory_removed")};
  facts.keys_directory = json.at("keys_directory");
  for (const auto& one : json.at("keys")) facts.keys.push_back(key_of(one));
  facts.leftovers = json.at("leftovers");
  return facts;
}

}  // namespace

nlohmann::ordered_json facts_json(const HostFacts& facts) {
  Json storage = Json::array(), keys = Json::array();
  for (const auto& one : facts.storage) storage.push_back(storage_json(one));
  for (const auto& one : facts.keys) keys.push_back(key_json(one));
  return {{"version", facts.version},
          {"root", facts.is_root},
          {"descriptors", soft_hard_json(facts.descriptors)},
          {"locked_memory", soft_hard_json(facts.locked_memory)},
          {"infiniband", facts.has_infiniband},
          {"tasks", facts.tasks ? tasks_json(*facts.tasks) : Json(nullptr)},
          {"storage", std::move(storage)},
          {"name",
           {{"name", facts.name.name},
            {"addresses", facts.name.addresses},
            {"problem", facts.name.problem}}},
          {"clock_synchronised", facts.is_clock_synchronised},
          {"cgroup_problem", facts.cgroup_problem},
          {"systemd", facts.has_systemd},
          {"session",
           {{"scope", facts.session.scope},
            {"killed_at_logout", facts.session.is_killed_at_logout},
            {"run_directory_removed", facts.session.is_run_dir_removed}}},
          {"keys_directory", facts.keys_directory},
          {"keys", std::move(keys)},
          {"leftovers", facts.leftovers}};
}

Result<HostFacts> parse_facts(std::string_view text) {
  try {
    return facts_of(Json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::malformed_message, std::string("facts of a host: ") + error.what());
  }
}

}  // namespace meshbus::cli::doctor
