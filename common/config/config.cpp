#include "common/config/config.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "common/base/did_you_mean.h"
#include "common/config/config_ladder.h"
#include "common/config/settings_file.h"

namespace meshbus {
namespace {

constexpr std::string_view kPrefix = "MESHBUS_";
constexpr std::size_t kLargestConfig = 1 << 20;

/// Variables of meshbus that are not settings: they give a proc its identity (spec 4.4, 4.5), or
/// are read before the settings.
bool is_bootstrapping(std::string_view variable) {
  static constexpr std::array<std::string_view, 14> names = {
      "MESHBUS_BOOTSTRAP", "MESHBUS_CONFIG",      "MESHBUS_ADDR",  "MESHBUS_MESH",
      "MESHBUS_RESTARTS",  "MESHBUS_CONTAINMENT", "MESHBUS_HOSTS", "MESHBUS_JOB_ATTEMPT",
      "MESHBUS_PROGRESS",  "MESHBUS_ROLE",        "MESHBUS_ROLES", "MESHBUS_LISTEN_PORT",
      "MESHBUS_BIN",       "MESHBUS_CPUS"};
  return std::find(names.begin(), names.end(), variable) != names.end() ||
         variable.starts_with("MESHBUS_RANK_") || variable.starts_with("MESHBUS_SIZE_") ||
         variable.starts_with("MESHBUS_ROLE_") || variable.starts_with("MESHBUS_TORCH_");
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 100;
  return text.size() <= most ? "\"" + std::string(text) + "\""
                             : "\"" + std::string(text.substr(0, most)) + "...\"";
}

std::string suggestion_for_key(std::string_view name) {
  std::vector<std::string_view> names;
  for (const KeyInfo& key : kKeyTable) names.push_back(key.name);
  if (const auto near = did_you_mean(name, names); !near.empty())
    return "did you mean " + in_quotes(near) + "?";
  std::string all = "the keys are";
  for (const std::string_view one : names)
    all += (one == names.front() ? " " : ", ") + std::string(one);
  return all;
}

std::string suggestion_for_variable(std::string_view variable) {
  std::vector<std::string> names;
  for (const KeyInfo& key : kKeyTable) names.push_back(environment_name(key));
  const auto near = did_you_mean(variable, names);
  return near.empty() ? "no setting is called that" : "did you mean " + std::string(near) + "?";
}

/// The path of the file, and whether it must be there.
std::optional<std::pair<std::string, bool>> find_file(
    const std::map<std::string, std::string>& environment) {
  const auto value_of = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  if (const auto path = value_of("MESHBUS_CONFIG"); !path.empty()) return {{path, true}};
  // The XDG rules say that a path that is not absolute is to be ignored.
  if (const auto xdg = value_of("XDG_CONFIG_HOME"); xdg.starts_with('/'))
    return {{xdg + "/meshbus/config", false}};
  if (const auto home = value_of("HOME"); home.starts_with('/'))
    return {{home + "/.config/meshbus/config", false}};
  return std::nullopt;
}

Result<std::string> read_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::configuration_error,
                "cannot read the configuration file " + path + ": " + why +
                    "; correct or unset MESHBUS_CONFIG, or make the file readable");
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return refuse("it is a directory");
  std::ifstream in(path, std::ios::binary);
  if (!in) return refuse(std::strerror(errno));
  std::string text(kLargestConfig + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return refuse(std::strerror(errno));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kLargestConfig) return refuse("it is larger than 1 MiB");
  return text;
}

/// One layer, checked, and what people call it.
struct Layer {
  std::string label;
  std::map<std::string, std::string, std::less<>> values = {};
};

enum class Unknown { is_error, is_warning };

Result<void> add_checked(Layer& layer, const Setting& setting, const std::string& where,
                         Unknown unknown, std::vector<std::string>& warnings) {
  const auto& [name, value] = setting;
  const KeyInfo* key = find_key(name);
  if (key == nullptr) {
    const std::string text =
        "there is no setting " + in_quotes(name) + " (" + where + "): " + suggestion_for_key(name);
    if (unknown == Unknown::is_error) return fail(ErrorCode::configuration_error, text);
    warnings.push_back(text + "; ignored");
    return {};
  }
  if (const auto parsed = parse_value(*key, value); !parsed) {
    return fail(ErrorCode::configuration_error,
                name + " = " + in_quotes(value) + " (" + where + "): " + parsed.error().detail());
  }
  layer.values.insert_or_assign(name, value);
  return {};
}

Result<Layer> layer_of(std::string label, const std::vector<Setting>& settings,
                       const std::string& where, Unknown unknown,
                       std::vector<std::string>& warnings) {
  Layer layer{std::move(label)};
  for (const Setting& one : settings) {
    if (auto added = add_checked(layer, one, where, unknown, warnings); !added)
      return fail(added.error());
  }
  return layer;
}

Result<Layer> layer_of_environment(const std::map<std::string, std::string>& environment,
                                   std::vector<std::string>& warnings) {
  Layer layer{"environment"};
  for (auto at = environment.lower_bound(std::string(kPrefix));
       at != environment.end() && at->first.starts_with(kPrefix); ++at) {
    const std::string &variable = at->first, &value = at->second;
    const auto* key = std::find_if(kKeyTable.begin(), kKeyTable.end(), [&](const KeyInfo& one) {
      return environment_name(one) == variable;
    });
    if (key != kKeyTable.end()) {
      const Setting setting{std::string(key->name), value};
      if (auto added = add_checked(layer, setting, "environment variable " + variable,
                                   Unknown::is_error, warnings);
          !added) {
        return fail(added.error());
      }
    } else if (!is_bootstrapping(variable)) {
      warnings.push_back("the environment variable " + variable +
                         " means nothing: " + suggestion_for_variable(variable));
    }
  }
  return layer;
}

std::vector<Setting> default_settings() {
  std::vector<Setting> settings;
  for (const KeyInfo& key : kKeyTable) settings.emplace_back(key.name, key.standard);
  return settings;
}

}  // namespace

Result<Setting> parse_setting(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return fail(ErrorCode::configuration_error,
                in_quotes(text) + " is not a setting: expected key=value, like spawn.ready=30s");
  }
  return Setting{text.substr(0, equals), text.substr(equals + 1)};
}

ConfigSources ConfigSources::of_process() {
  ConfigSources sources;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry(*at);
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    if (!name.starts_with(kPrefix) && name != "HOME" && name != "XDG_CONFIG_HOME") continue;
    sources.environment.emplace(name, entry.substr(equals + 1));
  }
  sources.site_file = "/etc/meshbus/config";
  return sources;
}

Config::Config() {
  for (std::size_t i = 0; i < kKeyTable.size(); ++i) {
    // A unit test sees to it that every default can be parsed.
    values_[i] = {parse_value(kKeyTable[i], kKeyTable[i].standard).value_or(0), "default", {}};
  }
}

Result<Config> Config::load(ConfigSources sources) {
  Config config(std::move(sources));
  auto file = find_file(config.sources_.environment);
  std::error_code ignored;
  if ((!file || (!file->second && !std::filesystem::exists(file->first, ignored))) &&
      !config.sources_.site_file.empty())
    file = {config.sources_.site_file, false};
  if (file && (file->second || std::filesystem::exists(file->first, ignored))) {
    const auto text = read_file(file->first);
    if (!text) return fail(text.error());
    config.file_path_ = file->first;
    config.file_ = parse_settings_file(*text);
  }
  if (auto resolved = config.resolve(); !resolved) return fail(resolved.error());
  return config;
}

Result<void> Config::resolve() {
  warnings_.clear();
  const ConfigSources& from = sources_;
  std::array<Result<Layer>, 7> layers = {
      layer_of("test", from.test, "test override", Unknown::is_error, warnings_),
      layer_of("flag", from.flags, from.flags_name, Unknown::is_error, warnings_),
      layer_of_environment(from.environment, warnings_),
      layer_of("runtime", from.runtime, "set at run time", Unknown::is_error, warnings_),
      layer_of("file " + file_path_, file_, "file " + file_path_, Unknown::is_error, warnings_),
      layer_of("launcher", from.snapshot, "settings of the launcher", Unknown::is_warning,
               warnings_),
      layer_of("default", default_settings(), "default", Unknown::is_error, warnings_),
  };
  for (const auto& layer : layers) {
    if (!layer) return fail(layer.error());
  }
  for (std::size_t i = 0; i < kKeyTable.size(); ++i) {
    const KeyInfo& key = kKeyTable[i];
    const auto strongest = std::ranges::find_if(
        layers, [&](const auto& layer) { return layer->values.contains(key.name); });
    const std::string& text = (*strongest)->values.find(key.name)->second;
    const auto value = parse_value(key, text);
    if (!value)
      return fail(ErrorCode::configuration_error,
                  std::string(key.name) + ": " + value.error().detail());
    values_[i] = {*value, (*strongest)->label, key.kind == ValueKind::path ? text : std::string()};
  }
  return check_ladder(*this);
}

Result<void> Config::set(std::string key, std::string value) {
  Config changed(*this);
  auto& runtime = changed.sources_.runtime;
  std::erase_if(runtime, [&](const Setting& one) { return one.first == key; });
  runtime.emplace_back(std::move(key), std::move(value));
  if (auto resolved = changed.resolve(); !resolved) return resolved;
  *this = std::move(changed);
  return {};
}

std::string Config::text_of(std::size_t index) const {
  const KeyInfo& key = kKeyTable[index];
  return key.kind == ValueKind::path ? values_[index].text
                                     : value_to_text(key, values_[index].number);
}

std::vector<Setting> Config::snapshot() const {
  std::vector<Setting> settings;
  for (std::size_t i = 0; i < kKeyTable.size(); ++i) {
    // Keys lie elsewhere on other machines.
    if (values_[i].source == "default" || kKeyTable[i].name.starts_with("keys.")) continue;
    settings.emplace_back(kKeyTable[i].name, text_of(i));
  }
  return settings;
}

std::vector<Config::Shown> Config::show() const {
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < kKeyTable.size(); ++i) {
    const KeyInfo& key = kKeyTable[i];
    shown.push_back({key.name, text_of(i), values_[i].source, key.meaning});
  }
  return shown;
}

Result<Config> load_config(const std::vector<std::string>& settings) {
  ConfigSources sources = ConfigSources::of_process();
  for (const std::string& text : settings) {
    auto setting = parse_setting(text);
    if (!setting) return fail(setting.error().within("--set"));
    sources.flags.push_back(std::move(*setting));
  }
  return Config::load(std::move(sources));
}

}  // namespace meshbus
