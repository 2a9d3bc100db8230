export { describeDecision, describePermission } from "./describe";
export { isTyping } from "./keys";
export { PermissionCard } from "./PermissionCard";
export { QuestionCard } from "./QuestionCard";
export { ScopeContext } from "./scope";
