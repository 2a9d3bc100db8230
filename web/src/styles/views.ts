// The style sheets of the views that are loaded later. The views share classes, and the order of the rules must not
// depend on the view that is loaded first.

import "../markdown/markdown.css";
import "../diff/diff.css";
import "../permission/permission.css";
import "../conversation/shared.css";
import "../composer/composer.css";
import "../terminal/terminal.css";
import "../conversation/conversation.css";
import "../header/header.css";
import "../panel/panel.css";
import "../session/session.css";
import "../settings/settings.css";
import "../tray/tray.css";
