#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus logs`
void add_logs(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
