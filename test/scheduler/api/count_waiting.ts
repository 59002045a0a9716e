import type { SchedulerApi } from "../../../services/scheduler/scheduler_api.ts";

/** From now on counts the readers that wait for the next event. @returns how many do. */
export const countWaiting = ({ events }: Pick<SchedulerApi, "events">): (() => number) => {
  let waiting = 0;
  const more = events.more.bind(events);
  events.more = async (...args) => {
    waiting += 1;
    try {
      return await more(...args);
    } finally {
      waiting -= 1;
    }
  };
  return () => waiting;
};
