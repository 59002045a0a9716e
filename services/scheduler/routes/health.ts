import { healthRoutes as probeRoutes } from "@orchestrator/shared/http/health.ts";
import type { Routes } from "./routes.ts";

export const healthRoutes: Routes = ({ api }) =>
  probeRoutes({
    question: "Is the lock held, the database writable and the dispatcher running?",
    exampleReason: "the dispatcher is not running",
    reasons: () => api.readiness(),
  });
