"""Apply each day's changes to the state of ``jobs/groups.py``; on Mondays, verify the state.

A batch that was applied is recognized by its ID, so Airflow may retry a task after any failure. Days are applied in
order.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG

JOB = "/opt/jobs/groups.py"
STATE = "s3://company/access/state"
CHANGES = "/mnt/access/changes/{{ ds }}"


def is_monday(ds: str) -> bool:
    """Whether the day of a run is a Monday."""
    return datetime.fromisoformat(ds).weekday() == 0


with DAG(
    "access",
    description="who may use what, by nested groups",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=True,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5), "depends_on_past": True},
) as dag:
    apply = SparkSubmitOperator(
        task_id="apply",
        application=JOB,
        application_args=["apply", "--state", STATE, "--changes", CHANGES, "--batch", "{{ ds }}", "--json"],
    )
    monday = ShortCircuitOperator(task_id="monday", python_callable=is_monday, op_args=["{{ ds }}"])
    verify = SparkSubmitOperator(
        task_id="verify", application=JOB, application_args=["verify", "--state", STATE, "--json"]
    )
    apply >> monday >> verify
