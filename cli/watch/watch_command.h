#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus watch`
void add_watch(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
