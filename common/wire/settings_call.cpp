#include "common/wire/settings_call.h"

#include <memory>

#include "common/wire/control.h"
#include "common/wire/wire_table.h"
#include "wire/settings_generated.h"

namespace meshbus {
namespace {

/// No key and no value is longer, paths included.
constexpr std::size_t kLongestSetting = 8 * 1024;

template <typename Entries>
Result<std::vector<ProcSetting>> read_entries(const Entries* entries, const std::string& what) {
  std::vector<ProcSetting> settings;
  if (entries == nullptr) return settings;
  if (entries->size() > kMostSettingChanges)
    return fail(ErrorCode::malformed_message,
                what + ": more than " + std::to_string(kMostSettingChanges) + " settings");
  for (const auto* one : *entries) {
    if (one->key()->size() > kLongestSetting || one->value()->size() > kLongestSetting)
      return fail(ErrorCode::malformed_message, what + ": a setting that is longer than any");
    settings.push_back({one->key()->str(), one->value()->str(), text_of(one->source()),
                        text_of(one->form()), text_of(one->help())});
  }
  return settings;
}

std::unique_ptr<wire::LiveSettingT> to_wire(const ProcSetting& setting) {
  auto out = std::make_unique<wire::LiveSettingT>();
  out->key = setting.key;
  out->value = setting.value;
  out->source = setting.source;
  out->form = setting.form;
  out->help = setting.help;
  return out;
}

}  // namespace

std::string encode_settings_call(const SettingChanges& changes) {
  wire::SettingsCallT call;
  for (const auto& [key, value] : changes)
    call.changes.push_back(to_wire({.key = key, .value = value, .source = {}}));
  return write_table<wire::SettingsCall>(call);
}

Result<SettingChanges> decode_settings_call(Bytes bytes) {
  const OpenedTable<wire::SettingsCall> opened(bytes);
  if (opened.get() == nullptr)
    return fail(ErrorCode::malformed_message, "SettingsCall: not well-formed");
  auto entries = read_entries(opened.get()->changes(), "SettingsCall");
  if (!entries) return fail(entries.error());
  SettingChanges changes;
  for (auto& one : *entries) changes.emplace_back(std::move(one.key), std::move(one.value));
  return changes;
}

std::string encode_settings(const std::vector<ProcSetting>& settings) {
  wire::SettingsAnswerT answer;
  for (const auto& one : settings) answer.settings.push_back(to_wire(one));
  return write_table<wire::SettingsAnswer>(answer);
}

Result<std::vector<ProcSetting>> decode_settings(Bytes bytes) {
  const OpenedTable<wire::SettingsAnswer> opened(bytes);
  if (opened.get() == nullptr)
    return fail(ErrorCode::malformed_message, "SettingsAnswer: not well-formed");
  return read_entries(opened.get()->settings(), "SettingsAnswer");
}

}  // namespace meshbus
