// Package mlflow is the built-in observer "mlflow": it writes a run to an MLflow tracking
// server over its REST API, version 2.0 (https://mlflow.org/docs/latest/rest-api.html).
//
// It imports core/base/pattern and core/sdk. Start with mlflow.go.
package mlflow
